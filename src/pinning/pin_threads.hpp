// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/execution_context.hpp>

#include <functional>

namespace rondo::detail {

/// Runs `work` on a new thread that belongs to `context`.
///
/// The thread is joined when the context is destroyed, or by a later call once it has ended. So it
/// never outlives the context, and, like Asio's own resolver, destroying a context waits for a call
/// that cannot be interrupted. Once that has begun, `work` is dropped.
/// Throws std::system_error, without `work`, if there is no thread to be had.
void run_on_pin_thread_of(asio::execution_context& context, std::function<void()> work);

}  // namespace rondo::detail
