// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/spec.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo {

/// Text that may come from a peer, made fit for a log or a terminal.
struct Printable {
    std::string text;         ///< valid UTF-8; control characters and broken bytes as `\x0a`
    std::size_t columns = 0;  ///< characters in `text`
    bool clipped = false;     ///< `text` ends early
};

[[nodiscard]] Printable printable(std::string_view text, std::size_t max_columns);

/// Printable, and cut to what a message can carry; a cut shows as `...`.
[[nodiscard]] std::string clipped(std::string_view text);

/// `"obs"`, printable and clipped, for a message.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// `float32[4]`: an array's text without its path.
[[nodiscard]] std::string type_text(const ArraySpec& array);

/// `"obs" (float32[4])`, printable and clipped, for a message.
[[nodiscard]] std::string described(const ArraySpec& array);

}  // namespace rondo
