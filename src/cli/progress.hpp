// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdio>
#include <string_view>

namespace rondo::cli {

/// The line that says how far the work is: on a terminal rewritten in place, elsewhere a line of
/// its own each time. Ends a rewritten line when destroyed.
class Progress {
public:
    /// `out` is not owned.
    explicit Progress(std::FILE* out);

    /// For an `out` that is known to be a terminal with so many columns; 0: that it is none.
    Progress(std::FILE* out, std::size_t columns) noexcept : out_{out}, columns_{columns} {}

    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress() { clear(); }

    /// How often to call `show`.
    [[nodiscard]] std::chrono::milliseconds interval() const noexcept;

    /// What does not fit in the terminal's width is left out.
    void show(std::string_view line);

    /// Takes the rewritten line away, to make room for other lines.
    void clear();

private:
    std::FILE* out_;
    std::size_t columns_;
    bool shown_ = false;
};

}  // namespace rondo::cli
