// SPDX-License-Identifier: Apache-2.0
#include "cli/format.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace rondo::cli {

std::string grouped(std::uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t place = text.size(); place > 3;) text.insert(place -= 3, 1, ',');
    return text;
}

std::string fixed(double number, int digits) {
    std::array<char, 64> text{};
    const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, number);
    return {
        text.data(),
        length > 0 ? std::min<std::size_t>(static_cast<std::size_t>(length), text.size() - 1) : 0};
}

std::string duration_text(double nanoseconds) {
    if (nanoseconds < 1e3) return fixed(nanoseconds, 0) + " ns";
    if (nanoseconds < 1e6) return fixed(nanoseconds / 1e3, 1) + " us";
    if (nanoseconds < 1e9) return fixed(nanoseconds / 1e6, 1) + " ms";
    return fixed(nanoseconds / 1e9, 1) + " s";
}

std::string counted(std::uint64_t number, std::string_view noun) {
    std::string text = grouped(number) + " " + std::string{noun};
    if (number == 1) return text;
    return text + (noun.ends_with("ch") ? "es" : "s");
}

std::string rate_text(double samples_per_second, double bytes_per_second) {
    return grouped(static_cast<std::uint64_t>(std::llround(samples_per_second))) + " samples/s, " +
           fixed(bytes_per_second / 1e6, 1) + " MB/s";
}

void print_line(std::FILE* out, std::string_view line) {
    std::fwrite(line.data(), 1, line.size(), out);
    std::fputc('\n', out);
    std::fflush(out);
}

void complain(std::string_view sentence) {
    print_line(stderr, "rondo: " + std::string{sentence});
}

}  // namespace rondo::cli
