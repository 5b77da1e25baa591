// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace rondo::detail {

/// One line to the sink of `rondo::set_log_sink`. Thread-safe.
void log_warning(std::string_view line) noexcept;
void log_info(std::string_view line) noexcept;

}  // namespace rondo::detail
