// SPDX-License-Identifier: Apache-2.0
// Stands in for libFuzzer where there is none: runs the target once on every file given, or found
// in a directory given. A broken invariant aborts, with the file's name as the last line.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_at(const fs::path& path) {
    if (!fs::is_directory(path)) return {path};
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator{path}) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
}

bool replay(const fs::path& file) {
    std::ifstream in{file, std::ios::binary};
    if (!in) {
        std::fprintf(stderr, "cannot read %s\n", file.c_str());
        return false;
    }
    const std::vector<char> content{std::istreambuf_iterator<char>{in}, {}};
    const std::vector<std::uint8_t> bytes{content.begin(), content.end()};
    std::printf("%s (%zu bytes)\n", file.c_str(), bytes.size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    return true;
}

}  // namespace

int main(int argc, char* argv[]) {
    std::size_t runs = 0;
    for (int i = 1; i < argc; ++i) {
        for (const fs::path& file : files_at(argv[i])) {
            if (!replay(file)) return 1;
            ++runs;
        }
    }
    // A test that found nothing to do must not pass.
    if (runs == 0) std::fprintf(stderr, "usage: %s <file or directory>...\n", argv[0]);
    return runs > 0 ? 0 : 1;
}
