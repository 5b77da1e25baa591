// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/execution_context.hpp>

#include <map>
#include <memory>
#include <mutex>

namespace rondo::detail {

class ClientCore;

/// The clients whose sockets belong to one execution context.
///
/// A socket must be gone before its context; a client need not. So when the context is destroyed,
/// its clients close and let their sockets go. Thread-safe. Held by shared_ptr: a client that
/// outlives the context still deregisters.
class ContextWatch {
public:
    /// The one of this context, made on first use. Made after the socket's own services: Asio shuts
    /// services down in the reverse order of their creation, and closing needs them alive.
    [[nodiscard]] static std::shared_ptr<ContextWatch> of(asio::execution_context& context);

    /// False if the context is being destroyed.
    [[nodiscard]] bool add(const std::shared_ptr<ClientCore>& client);
    void remove(const ClientCore& client) noexcept;

    void shutdown() noexcept;

private:
    std::mutex mutex_;
    std::map<const ClientCore*, std::weak_ptr<ClientCore>> clients_;
    bool shut_down_ = false;
};

}  // namespace rondo::detail
