// SPDX-License-Identifier: Apache-2.0
#include "server/server_core.hpp"
#include "server/server_creation.hpp"
#include "transport/tcp_transport.hpp"
#include <rondo/detail/blocking_retry.hpp>
#include <rondo/detail/log.hpp>
#include <rondo/server.hpp>

#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <mutex>
#include <utility>
#include <vector>

namespace rondo {
namespace detail {

namespace {

/// True in a forked child, which does not have the page-locked memory of its parent's server: every
/// operation finds the server closed there. Says so, once per process.
bool refused_to_child(ServerCore& core) noexcept {
    if (!core.store().ring().lost_by_fork()) return false;
    static std::once_flag said;
    std::call_once(said, [] {
        log_warning(
            "a forked child uses a server whose memory its parent page-locked. It is closed here, "
            "and nothing is unlocked. Start processes that want a server of their own with spawn "
            "or exec.");
    });
    return true;
}

void let_go(std::shared_ptr<ServerCore> core) noexcept {
    if (core == nullptr) return;
    if (!refused_to_child(*core)) return core->close();
    // The transports' threads are the parent's: joining them here would never return. So the core
    // stays until the child ends.
    static auto& left = *new std::vector<std::shared_ptr<ServerCore>>;
    left.push_back(std::move(core));
}

}  // namespace

std::optional<InsertAttempt::Result> InsertAttempt::operator()() {
    if (refused_to_child(*core)) {
        return tl::unexpected{InsertError{InsertError::Code::closed, inserted, {}}};
    }
    if (inserted == 0) {
        if (auto error = core->check(arrays, count)) return tl::unexpected{std::move(*error)};
    }
    const auto since = Recorder::first(first_try_ns);
    const ServerCore::Taken taken = core->take_rows(arrays, inserted, count);
    core->store().recorder().committed(since, taken.rows);
    inserted += taken.rows;
    if (inserted == count) return Result{};
    if (taken.closed) {
        return tl::unexpected{InsertError{InsertError::Code::closed, inserted, {}}};
    }
    return std::nullopt;
}

InsertAttempt::Result InsertAttempt::give_up(WaitEnd end) const {
    const auto code =
        end == WaitEnd::timed_out ? InsertError::Code::timed_out : InsertError::Code::cancelled;
    return tl::unexpected{InsertError{code, inserted, {}}};
}

std::optional<SampleAttempt::Result> SampleAttempt::operator()() const {
    if (refused_to_child(*core)) return tl::unexpected{SampleError{SampleError::Code::closed}};
    auto batch = core->try_sample();
    if (!batch) return tl::unexpected{batch.error()};
    if (*batch) return std::move(**batch);
    if (core->store().refuses(rule)) {
        return tl::unexpected{SampleError{SampleError::Code::next_leased}};
    }
    return std::nullopt;
}

SampleAttempt::Result SampleAttempt::give_up(WaitEnd end) const {
    return tl::unexpected{SampleError{end == WaitEnd::timed_out ? SampleError::Code::timed_out
                                                                : SampleError::Code::cancelled}};
}

std::optional<bool> BatchAttempt::operator()() const noexcept {
    if (refused_to_child(*core) || !core->store().must_wait(rule)) return true;
    return std::nullopt;
}

namespace {

// The coroutine form of an operation. Tries first, so that an operation that need not wait costs no
// handler and no trip through the executor. Not if it was cancelled before: nobody may look at the
// result, and what it took would be lost.
template <typename Attempt>
asio::awaitable<typename Attempt::Result> retry(std::shared_ptr<WaitPoint> point, Attempt attempt,
                                                Deadline deadline) {
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (cancellation.cancelled() != asio::cancellation_type::none) {
        co_return attempt.give_up(WaitEnd::cancelled);  // awaiting anything now would throw
    }
    if (auto result = attempt()) co_return std::move(*result);
    co_return co_await async_retry(std::move(point), std::move(attempt), deadline,
                                   asio::use_awaitable);
}

}  // namespace
}  // namespace detail

tl::expected<Server, PinError> Server::create(SampleSpec spec, ServerOptions options) {
    const auto request = detail::make_server_request(std::move(spec), options);
    detail::MadeCore made;
    if (!request.pin) {
        made = detail::make_core(request);
    } else if (auto failed = detail::on_pin_thread([&] { made = detail::make_core(request); })) {
        return tl::unexpected{std::move(*failed)};
    }
    return std::move(made).map([](auto core) { return Server{std::move(core)}; });
}

Server::Server(std::shared_ptr<detail::ServerCore> core) noexcept : core_{std::move(core)} {}
Server::Server(Server&&) noexcept = default;

Server& Server::operator=(Server&& other) noexcept {
    if (this != &other) {
        detail::let_go(std::move(core_));
        core_ = std::move(other.core_);
    }
    return *this;
}

Server::~Server() {
    detail::let_go(std::move(core_));
}

const SampleSpec& Server::spec() const noexcept {
    return core_->spec();
}
const ServerOptions& Server::options() const noexcept {
    return core_->options();
}

tl::expected<Endpoint, ListenError> Server::listen(TcpOptions options) {
    Endpoint bound;
    return core_->add(std::make_unique<detail::TcpTransport>(std::move(options), bound)).map([&] {
        return std::move(bound);
    });
}

tl::expected<void, ListenError> Server::add(std::unique_ptr<Transport> transport) {
    return core_->add(std::move(transport));
}

tl::expected<bool, InsertError> Server::try_insert(const Sample& sample) {
    return try_insert(sample.arrays());
}

tl::expected<bool, InsertError> Server::try_insert(std::span<const ArrayBytes> arrays) {
    return try_insert_many(arrays, 1).map([](std::size_t taken) { return taken == 1; });
}

tl::expected<std::size_t, InsertError> Server::try_insert_many(std::span<const ArrayBytes> stacked,
                                                               std::size_t count) {
    if (detail::refused_to_child(*core_)) {
        return tl::unexpected{InsertError{InsertError::Code::closed, 0, {}}};
    }
    if (auto error = core_->check(stacked, count)) return tl::unexpected{std::move(*error)};
    const auto since = detail::Recorder::now();
    const auto taken = core_->take_rows(stacked, 0, count);
    core_->store().recorder().committed(since, taken.rows);
    if (taken.closed) {
        return tl::unexpected{InsertError{InsertError::Code::closed, taken.rows, {}}};
    }
    return taken.rows;
}

asio::awaitable<tl::expected<void, InsertError>> Server::insert(const Sample& sample,
                                                                Deadline deadline) {
    return insert_many(sample.arrays(), 1, deadline);
}

asio::awaitable<tl::expected<void, InsertError>> Server::insert(std::span<const ArrayBytes> arrays,
                                                                Deadline deadline) {
    return insert_many(arrays, 1, deadline);
}

asio::awaitable<tl::expected<void, InsertError>> Server::insert_many(
    std::span<const ArrayBytes> stacked, std::size_t count, Deadline deadline) {
    return detail::retry(room(), detail::InsertAttempt{core_, stacked, count}, deadline);
}

tl::expected<void, InsertError> Server::blocking_insert(const Sample& sample, Deadline deadline) {
    return blocking_insert_many(sample.arrays(), 1, deadline);
}

tl::expected<void, InsertError> Server::blocking_insert_many(std::span<const ArrayBytes> stacked,
                                                             std::size_t count, Deadline deadline) {
    const auto where = room();
    return detail::blocking_retry(*where, detail::InsertAttempt{core_, stacked, count}, deadline);
}

tl::expected<std::optional<Batch>, SampleError> Server::try_sample() {
    if (detail::refused_to_child(*core_)) {
        return tl::unexpected{SampleError{SampleError::Code::closed}};
    }
    return core_->try_sample();
}

asio::awaitable<tl::expected<Batch, SampleError>> Server::sample(SampleOptions options) {
    return detail::retry(batches(options, false),
                         detail::SampleAttempt{core_, rule_of(options, false)}, options.deadline);
}

tl::expected<Batch, SampleError> Server::blocking_sample(SampleOptions options) {
    const auto where = batches(options, true);
    return detail::blocking_retry(*where, detail::SampleAttempt{core_, rule_of(options, true)},
                                  options.deadline);
}

Metrics Server::metrics() const {
    return core_->metrics();
}

Histograms Server::reset_histograms() {
    return core_->store().recorder().reset_histograms();
}

void Server::close() {
    if (!detail::refused_to_child(*core_)) core_->close();
}

std::shared_ptr<detail::WaitPoint> Server::room() const noexcept {
    return core_->store().room();
}

std::shared_ptr<detail::WaitPoint> Server::batches(const SampleOptions& options,
                                                   bool blocking) const noexcept {
    return core_->store().batches(rule_of(options, blocking));
}

detail::LeasedNext Server::rule_of(const SampleOptions& options, bool blocking) noexcept {
    switch (options.when_next_leased) {
        case WhenNextLeased::by_form:
            return blocking ? detail::LeasedNext::refuse_own : detail::LeasedNext::wait;
        case WhenNextLeased::fail:
            return detail::LeasedNext::refuse;
        case WhenNextLeased::wait:
            break;
    }
    return detail::LeasedNext::wait;
}

}  // namespace rondo
