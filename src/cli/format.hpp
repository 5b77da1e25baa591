// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace rondo::cli {

/// `1,234,567`.
[[nodiscard]] std::string grouped(std::uint64_t number);

/// With so many digits after the point.
[[nodiscard]] std::string fixed(double number, int digits);

/// `850 ns`, `12.3 us`, `1.2 ms`, `3.4 s`.
[[nodiscard]] std::string duration_text(double nanoseconds);

/// `1 sample`, `2 samples`, `1,000 samples`.
[[nodiscard]] std::string counted(std::uint64_t number, std::string_view noun);

/// `123,456 samples/s, 12.3 MB/s`; a MB is 1,000,000 bytes.
[[nodiscard]] std::string rate_text(double samples_per_second, double bytes_per_second);

/// Writes the line at once, however `out` is buffered.
void print_line(std::FILE* out, std::string_view line);

/// Writes `rondo: <sentence>` to stderr.
void complain(std::string_view sentence);

}  // namespace rondo::cli
