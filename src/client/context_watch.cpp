// SPDX-License-Identifier: Apache-2.0
#include "client/context_watch.hpp"

#include "client/client_core.hpp"

#include <utility>

namespace rondo::detail {
namespace {

class WatchService final : public asio::execution_context::service {
public:
    using key_type = WatchService;
    static asio::execution_context::id id;

    explicit WatchService(asio::execution_context& owner) : service{owner} {}

    const std::shared_ptr<ContextWatch> watch = std::make_shared<ContextWatch>();

private:
    void shutdown() override { watch->shutdown(); }
};

asio::execution_context::id WatchService::id;

}  // namespace

std::shared_ptr<ContextWatch> ContextWatch::of(asio::execution_context& context) {
    return asio::use_service<WatchService>(context).watch;
}

bool ContextWatch::add(const std::shared_ptr<ClientCore>& client) {
    const std::lock_guard lock{mutex_};
    if (shut_down_) return false;
    clients_.emplace(client.get(), client);
    return true;
}

void ContextWatch::remove(const ClientCore& client) noexcept {
    const std::lock_guard lock{mutex_};
    clients_.erase(&client);
}

void ContextWatch::shutdown() noexcept {
    std::unique_lock lock{mutex_};
    shut_down_ = true;
    const auto clients = std::exchange(clients_, {});
    lock.unlock();  // a client that dies here deregisters
    for (const auto& [key, weak] : clients) {
        if (const auto client = weak.lock()) client->context_gone();
    }
}

}  // namespace rondo::detail
