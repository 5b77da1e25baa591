// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rondo::detail {

/// Prints the place, the condition and the contract to stderr, then calls `std::abort`.
[[noreturn, gnu::cold, gnu::noinline]] void assertion_failed(const char* file, int line,
                                                             const char* condition,
                                                             const char* contract) noexcept;

}  // namespace rondo::detail

/// Ends the program if a caller broke `contract`, a sentence about what the caller owes. Always on,
/// in release builds too. An expression, usable in constant evaluation. Never for what a peer sends
/// or a machine refuses: those are errors with a type.
#define RONDO_ASSERT(condition, contract)              \
    (__builtin_expect(static_cast<bool>(condition), 1) \
         ? static_cast<void>(0)                        \
         : ::rondo::detail::assertion_failed(__FILE__, __LINE__, #condition, contract))
