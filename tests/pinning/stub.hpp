// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the stub libraries share. They stand in for CUDA's, are loaded by the real dlopen, and obey:
//   RONDO_STUB_CALLS    the file that a line is appended to for each call
//   RONDO_STUB_DEVICES  how many devices there are; 1 if not set
//   RONDO_STUB_FAIL     [part@]function:n:code,...  the n-th call (0: each) fails with the code, in
//                       libraries whose path contains the part
//   RONDO_STUB_BLOCK    a file: the first call of all waits until it exists
//   RONDO_STUB_ACTIVE   the devices with an active primary context, e.g. "0,2"
//   RONDO_STUB_CURRENT  the device of the context that is current on every thread

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <pthread.h>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace stub {

inline std::string variable(const char* name, const char* otherwise = "") {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : otherwise;
}

inline std::string own_path() {
    static const int anchor = 0;
    Dl_info info{};
    return ::dladdr(&anchor, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

inline std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream{text};
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
}

inline int devices() {
    return std::atoi(variable("RONDO_STUB_DEVICES", "1").c_str());
}

inline bool is_active(int device) {
    for (const auto& part : split(variable("RONDO_STUB_ACTIVE"), ',')) {
        if (std::atoi(part.c_str()) == device) return true;
    }
    return false;
}

inline std::mutex& mutex() {
    static std::mutex instance;
    return instance;
}

/// A number of each thread, 0 at first. Not thread_local: a leak checker of g++ 12 misreads the
/// thread-local memory of libraries that are loaded late, and crashes.
class PerThread {
public:
    PerThread() { ::pthread_key_create(&key_, nullptr); }

    PerThread& operator=(std::intptr_t value) {
        ::pthread_setspecific(key_, reinterpret_cast<const void*>(value));
        return *this;
    }
    operator int() const {  // NOLINT(google-explicit-constructor): stands in for an int
        return static_cast<int>(reinterpret_cast<std::intptr_t>(::pthread_getspecific(key_)));
    }

private:
    pthread_key_t key_{};
};

inline void block_first_call() {
    static std::once_flag first;
    std::call_once(first, [] {
        const auto file = variable("RONDO_STUB_BLOCK");
        while (!file.empty() && !std::filesystem::exists(file)) ::usleep(1000);
    });
}

/// The code that the environment wants of this call, 0 if none.
inline int wanted_failure(const std::string& function) {
    static std::map<std::string, int> counts;
    int count = 0;
    {
        const std::lock_guard lock{mutex()};
        count = ++counts[function];
    }
    for (auto item : split(variable("RONDO_STUB_FAIL"), ',')) {
        if (const auto at = item.find('@'); at != item.npos) {
            if (own_path().find(item.substr(0, at)) == item.npos) continue;
            item.erase(0, at + 1);
        }
        const auto parts = split(item, ':');
        if (parts.size() == 3 && parts[0] == function &&
            (parts[1] == "0" || std::atoi(parts[1].c_str()) == count)) {
            return std::atoi(parts[2].c_str());
        }
    }
    return 0;
}

inline std::ptrdiff_t threads() {
    using Iterator = std::filesystem::directory_iterator;
    std::error_code none;  // a process without procfs, which no test counts the threads of
    return std::distance(Iterator{"/proc/self/task", none}, Iterator{});
}

/// Appends a line; `device` is the calling thread's.
inline void record(const std::string& function, const std::string& arguments, int code,
                   int device) {
    const auto file = variable("RONDO_STUB_CALLS");
    if (file.empty()) return;
    std::ostringstream line;
    line << function << " code=" << code << " device=" << device << " thread=" << ::gettid()
         << " threads=" << threads() << ' ' << arguments << " library=" << own_path() << '\n';
    const std::lock_guard lock{mutex()};
    if (std::FILE* const out = std::fopen(file.c_str(), "ae")) {
        std::fputs(line.str().c_str(), out);
        std::fclose(out);
    }
}

/// The memory that is page-locked, as far as this library knows.
class Registrations {
public:
    int add(void* memory, std::size_t bytes) {
        const auto begin = reinterpret_cast<std::uintptr_t>(memory);
        const std::lock_guard lock{mutex()};
        for (const auto& [at, size] : regions_) {
            if (begin < at + size && at < begin + bytes) return 712;
        }
        regions_[begin] = bytes;
        return 0;
    }

    int remove(void* memory) {
        const std::lock_guard lock{mutex()};
        return regions_.erase(reinterpret_cast<std::uintptr_t>(memory)) == 1 ? 0 : 713;
    }

    bool contains(std::uintptr_t byte) const {
        const std::lock_guard lock{mutex()};
        return std::any_of(regions_.begin(), regions_.end(), [byte](const auto& region) {
            return region.first <= byte && byte < region.first + region.second;
        });
    }

private:
    std::map<std::uintptr_t, std::size_t> regions_;
};

inline Registrations& registrations() {
    static auto& instance = *new Registrations;  // there while the process exits
    return instance;
}

/// "yes" if every page is in memory.
inline const char* resident(void* memory, std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    if (::mincore(memory, bytes, pages.data()) != 0) return "unmapped";
    const bool all = std::all_of(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; });
    return all ? "yes" : "no";
}

}  // namespace stub

#define RONDO_STUB_EXPORT extern "C" [[gnu::visibility("default")]]
