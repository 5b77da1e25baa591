// SPDX-License-Identifier: Apache-2.0
#include "micro/specs.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

namespace rondo::bench {
namespace {

[[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, RONDO_BENCH_SPECS ": %s\n", why.c_str());
    std::exit(1);
}

std::string trimmed(const std::string& text) {
    const auto begin = text.find_first_not_of(' ');
    if (begin == std::string::npos) return {};
    return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::vector<NamedSpec> read() {
    std::ifstream file{RONDO_BENCH_SPECS};
    std::vector<NamedSpec> found;
    for (std::string line; std::getline(file, line);) {
        const auto equals = line.find('=');
        if (line.starts_with('#') || equals == std::string::npos) continue;
        auto name = trimmed(line.substr(0, equals));
        auto spec = SampleSpec::parse(trimmed(line.substr(equals + 1)));
        if (!spec) give_up(name + ": " + spec.error().message());
        found.push_back({std::move(name), *std::move(spec)});
    }
    if (found.empty()) give_up("no specs found");
    return found;
}

}  // namespace

const std::vector<NamedSpec>& specs() {
    static const std::vector<NamedSpec> all = read();
    return all;
}

const SampleSpec& spec_named(const std::string& name) {
    const auto found = std::ranges::find(specs(), name, &NamedSpec::name);
    if (found == specs().end()) give_up("has no spec '" + name + "'");
    return found->spec;
}

std::vector<std::byte> random_bytes(std::size_t count) {
    std::vector<std::byte> bytes(count);
    std::mt19937_64 random{42};
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

}  // namespace rondo::bench
