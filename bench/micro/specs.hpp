// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/spec.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace rondo::bench {

struct NamedSpec {
    std::string name;
    SampleSpec spec;
};

/// The specs of bench/specs.txt, in its order. Ends the program with a sentence if it has none.
[[nodiscard]] const std::vector<NamedSpec>& specs();

/// The spec of that name. Ends the program with a sentence if there is none.
[[nodiscard]] const SampleSpec& spec_named(const std::string& name);

/// Never zero pages: the kernel maps those to one page that is always cached.
[[nodiscard]] std::vector<std::byte> random_bytes(std::size_t count);

}  // namespace rondo::bench
