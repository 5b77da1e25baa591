// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rondo::detail {

/// Nothing if `arrays` are `count` stacked samples of `spec`; else the sentence that says how they
/// differ. `owner` is whose spec it is, e.g. "server". Every entrance for samples asks this.
[[nodiscard]] std::optional<std::string> check_arrays(const SampleSpec& spec,
                                                      std::span<const ArrayBytes> arrays,
                                                      std::size_t count, std::string_view owner);

}  // namespace rondo::detail
