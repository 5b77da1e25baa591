// SPDX-License-Identifier: Apache-2.0
#include <rondo/detail/assert.hpp>

#include <cstdio>
#include <cstdlib>

namespace rondo::detail {

void assertion_failed(const char* file, int line, const char* condition,
                      const char* contract) noexcept {
    std::fprintf(stderr, "%s:%d: contract broken: %s (%s)\n", file, line, contract, condition);
    std::fflush(stderr);
    std::abort();
}

}  // namespace rondo::detail
