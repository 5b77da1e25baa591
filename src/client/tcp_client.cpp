// SPDX-License-Identifier: Apache-2.0
#include "client/await_retry.hpp"
#include "client/connector.hpp"
#include "client/send_operation.hpp"
#include <rondo/tcp_client.hpp>

#include <utility>

namespace rondo {
namespace detail {
namespace {

// These are coroutines; the members of TcpClient are ordinary functions, so that nothing with a
// destructor is made in a caller's full expression with `co_await`. Inside, every such thing is
// a named local.

asio::awaitable<Connector::Result> connect(std::string host, std::uint16_t port, SampleSpec spec,
                                           TcpClientOptions options) {
    const auto executor = co_await asio::this_coro::executor;
    const Deadline deadline = options.connect_timeout;
    ConnectAttempt attempt{
        Connector::start(executor, std::move(host), port, std::move(spec), options, deadline)};
    if (auto result = attempt()) co_return std::move(*result);
    std::shared_ptr<WaitPoint> point = attempt.connector;
    co_return co_await await_retry(std::move(point), std::move(attempt), deadline);
}

asio::awaitable<SendOperation::Result> send(std::shared_ptr<ClientCore> core,
                                            std::span<const ArrayBytes> arrays, std::size_t count,
                                            Deadline deadline) {
    SendOperation operation{std::move(core), arrays, count};
    for (;;) {
        if (auto result = operation.proceed()) co_return std::move(*result);
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        if (cancellation.cancelled() != asio::cancellation_type::none) {
            co_return operation.give_up(WaitEnd::cancelled);  // awaiting anything now would throw
        }
        auto place = operation.place();
        const SendAttempt attempt{&operation, place.get()};
        auto result =
            co_await async_retry(std::move(place), attempt, deadline, asio::use_awaitable);
        if (result.of_operation) co_return std::move(*result.of_operation);
    }
}

asio::awaitable<WaitAttempt::Result> wait(std::shared_ptr<ClientCore> core, Deadline deadline) {
    const std::uint64_t target = core->sent_total();
    WaitAttempt attempt{std::move(core), target};
    if (auto result = attempt()) co_return std::move(*result);
    auto point = attempt.core->ack_of(target);
    co_return co_await await_retry(std::move(point), std::move(attempt), deadline);
}

asio::awaitable<std::uint64_t> close(std::shared_ptr<ClientCore> core, Deadline deadline) {
    core->begin_close();
    CloseAttempt attempt{std::move(core)};
    if (const auto result = attempt()) co_return *result;
    auto point = attempt.core->closing();
    co_return co_await await_retry(std::move(point), std::move(attempt), deadline);
}

}  // namespace
}  // namespace detail

asio::awaitable<tl::expected<TcpClient, ConnectError>> TcpClient::connect_named(
    std::string host, std::uint16_t port, SampleSpec spec, TcpClientOptions options) {
    auto connecting = detail::connect(std::move(host), port, std::move(spec), options);
    auto core = co_await std::move(connecting);
    if (!core) co_return tl::unexpected<ConnectError>{std::move(core).error()};
    TcpClient client{std::move(*core)};
    co_return client;
}

asio::awaitable<tl::expected<TcpClient, ConnectError>> TcpClient::connect(
    std::string_view host, std::uint16_t port, SampleSpec spec, TcpClientOptions options) {
    return connect_named(std::string{host}, port, std::move(spec), options);
}

TcpClient::TcpClient(std::shared_ptr<detail::ClientCore> core) noexcept : core_{std::move(core)} {}
TcpClient::TcpClient(TcpClient&&) noexcept = default;

TcpClient& TcpClient::operator=(TcpClient&& other) noexcept {
    if (this != &other) {
        if (core_ != nullptr) core_->abandon();
        core_ = std::move(other.core_);
    }
    return *this;
}

TcpClient::~TcpClient() {
    if (core_ != nullptr) core_->abandon();
}

const SampleSpec& TcpClient::spec() const noexcept {
    return core_->spec();
}

asio::awaitable<tl::expected<void, SendError>> TcpClient::send(const Sample& sample,
                                                               Deadline deadline) {
    return detail::send(core_, sample.arrays(), 1, deadline);
}

asio::awaitable<tl::expected<void, SendError>> TcpClient::send(std::span<const ArrayBytes> arrays,
                                                               Deadline deadline) {
    return detail::send(core_, arrays, 1, deadline);
}

asio::awaitable<tl::expected<void, SendError>> TcpClient::send_many(
    std::span<const ArrayBytes> stacked, std::size_t count, Deadline deadline) {
    return detail::send(core_, stacked, count, deadline);
}

tl::expected<bool, SendError> TcpClient::try_send(const Sample& sample) {
    return detail::try_send(core_, sample.arrays());
}

tl::expected<bool, SendError> TcpClient::try_send(std::span<const ArrayBytes> arrays) {
    return detail::try_send(core_, arrays);
}

asio::awaitable<tl::expected<void, SendError>> TcpClient::wait(Deadline deadline) {
    return detail::wait(core_, deadline);
}

asio::awaitable<std::uint64_t> TcpClient::close(Deadline deadline) {
    return detail::close(core_, deadline);
}

std::uint64_t TcpClient::in_flight() const noexcept {
    return core_->in_flight();
}
bool TcpClient::was_open() const noexcept {
    return core_->was_open();
}

}  // namespace rondo
