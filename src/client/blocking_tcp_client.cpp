// SPDX-License-Identifier: Apache-2.0
#include "client/connector.hpp"
#include "client/send_operation.hpp"
#include <rondo/blocking_tcp_client.hpp>
#include <rondo/detail/blocking_retry.hpp>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

namespace rondo {

/// The thread that all blocking clients of this process share.
///
/// Nothing that runs on it can be the last owner: its handlers own a `ClientCore` or a `Connector`,
/// and neither owns the thread. So the thread is always joined by a thread that had a client, never
/// by itself. A client that is made while the last thread is being joined gets a new one: the weak
/// reference is already empty then, and the two share nothing.
class BlockingTcpClient::IoThread {
public:
    [[nodiscard]] static std::shared_ptr<IoThread> shared() {
        Current& current = current_of_this_process();
        const std::lock_guard lock{current.mutex};
        auto thread = current.thread.lock();
        if (thread == nullptr) {
            thread = std::make_shared<IoThread>();
            current.thread = thread;
        }
        return thread;
    }

    IoThread() : work_{context_.get_executor()}, thread_{[this] { context_.run(); }} {}
    IoThread(const IoThread&) = delete;
    IoThread& operator=(const IoThread&) = delete;
    ~IoThread() {
        context_.stop();
        thread_.join();
    }

    [[nodiscard]] asio::any_io_executor executor() { return context_.get_executor(); }

    /// True in a child that was forked from the thread's process: there is no such thread there.
    [[nodiscard]] bool is_another_process() const noexcept { return ::getpid() != process_; }

private:
    struct Current {
        const ::pid_t process = ::getpid();
        std::mutex mutex;
        std::weak_ptr<IoThread> thread;
    };

    // A forked child gets one of its own: the parent's mutex may have been locked at the fork, and
    // nobody would unlock it. Never freed, one per process.
    static Current& current_of_this_process() {
        static std::atomic<Current*> current{new Current};
        Current* found = current.load();
        while (found->process != ::getpid()) {
            auto* const own = new Current;
            if (current.compare_exchange_strong(found, own)) return *own;
            delete own;
        }
        return *found;
    }

    const ::pid_t process_ = ::getpid();
    asio::io_context context_{1};
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    std::thread thread_;
};

namespace {

constexpr const char* forked =
    "this process was forked from the one that connected: connect again in the child";

SendError forked_error() {
    return SendError{SendError::Code::connection_closed, 0, 0, forked};
}

/// An attempt whose wait may end without a result, to be taken up again.
template <typename Attempt>
struct Turn {
    using Result = std::optional<typename Attempt::Result>;

    Attempt attempt;

    std::optional<Result> operator()() {
        if (auto result = attempt()) return Result{std::move(*result)};
        return std::nullopt;
    }
    Result give_up(detail::WaitEnd /*end*/) const { return std::nullopt; }
};

template <typename Attempt>
typename Attempt::Result retry(detail::WaitPoint& point, Attempt attempt, Deadline deadline,
                               const BlockingTcpClient::GoOn& go_on) {
    if (!go_on) return detail::blocking_retry(point, std::move(attempt), deadline);
    constexpr std::chrono::milliseconds ask_every{50};
    for (;;) {
        const Deadline turn = std::min(deadline.at(), Deadline::Clock::now() + ask_every);
        if (auto result = detail::blocking_retry(point, Turn<Attempt>{attempt}, turn)) {
            return std::move(*result);
        }
        if (deadline.passed()) return attempt.give_up(detail::WaitEnd::timed_out);
        if (!go_on()) return attempt.give_up(detail::WaitEnd::cancelled);
    }
}

}  // namespace

tl::expected<BlockingTcpClient, ConnectError> BlockingTcpClient::connect(std::string_view host,
                                                                         std::uint16_t port,
                                                                         SampleSpec spec,
                                                                         TcpClientOptions options,
                                                                         const GoOn& go_on) {
    auto thread = IoThread::shared();
    const Deadline deadline = options.connect_timeout;
    const detail::ConnectAttempt attempt{detail::Connector::start(
        thread->executor(), std::string{host}, port, std::move(spec), options, deadline)};
    auto core = retry(*attempt.connector, attempt, deadline, go_on);
    if (!core) return tl::unexpected{std::move(core).error()};
    return BlockingTcpClient{std::move(thread), std::move(*core)};
}

BlockingTcpClient::BlockingTcpClient(std::shared_ptr<IoThread> thread,
                                     std::shared_ptr<detail::ClientCore> core) noexcept
    : thread_{std::move(thread)}, core_{std::move(core)} {}

BlockingTcpClient::BlockingTcpClient(BlockingTcpClient&&) noexcept = default;

BlockingTcpClient& BlockingTcpClient::operator=(BlockingTcpClient&& other) noexcept {
    if (this != &other) {
        drop();
        thread_ = std::move(other.thread_);
        core_ = std::move(other.core_);
    }
    return *this;
}

BlockingTcpClient::~BlockingTcpClient() {
    drop();
}

void BlockingTcpClient::drop() noexcept {
    if (core_ == nullptr) return;
    if (is_forked()) {
        // Its mutex may be locked for ever, and its thread cannot be joined: only the descriptor is
        // given back, so that the connection ends when the parent closes it.
        ::close(core_->native_handle());
        new std::shared_ptr{std::move(core_)};
        new std::shared_ptr{std::move(thread_)};
        return;
    }
    core_->abandon();
    core_.reset();
    thread_.reset();  // joins it, if this was the last client
}

bool BlockingTcpClient::is_forked() const noexcept {
    return thread_->is_another_process();
}

const SampleSpec& BlockingTcpClient::spec() const noexcept {
    return core_->spec();
}

tl::expected<void, SendError> BlockingTcpClient::send(const Sample& sample, Deadline deadline) {
    return send_many(sample.arrays(), 1, deadline);
}

tl::expected<void, SendError> BlockingTcpClient::send(std::span<const ArrayBytes> arrays,
                                                      Deadline deadline) {
    return send_many(arrays, 1, deadline);
}

tl::expected<void, SendError> BlockingTcpClient::send_many(std::span<const ArrayBytes> stacked,
                                                           std::size_t count, Deadline deadline) {
    if (is_forked()) return tl::unexpected{forked_error()};
    detail::SendOperation operation{core_, stacked, count};
    for (;;) {
        const auto place = operation.place();
        const detail::SendAttempt attempt{&operation, place.get()};
        auto result = detail::blocking_retry(*place, attempt, deadline);
        if (result.of_operation) return std::move(*result.of_operation);
    }
}

tl::expected<bool, SendError> BlockingTcpClient::try_send(const Sample& sample) {
    return try_send(sample.arrays());
}

tl::expected<bool, SendError> BlockingTcpClient::try_send(std::span<const ArrayBytes> arrays) {
    if (is_forked()) return tl::unexpected{forked_error()};
    return detail::try_send(core_, arrays);
}

tl::expected<void, SendError> BlockingTcpClient::wait(Deadline deadline) {
    if (is_forked()) return tl::unexpected{forked_error()};
    const detail::WaitAttempt attempt{core_, core_->sent_total()};
    if (auto result = attempt()) return std::move(*result);
    const auto point = core_->ack_of(attempt.target);
    return detail::blocking_retry(*point, attempt, deadline);
}

std::uint64_t BlockingTcpClient::close(Deadline deadline, const GoOn& go_on) {
    if (is_forked()) return 0;
    core_->begin_close();
    const auto point = core_->closing();
    return retry(*point, detail::CloseAttempt{core_}, deadline, go_on);
}

std::uint64_t BlockingTcpClient::in_flight() const noexcept {
    return is_forked() ? 0 : core_->in_flight();
}

bool BlockingTcpClient::was_open() const noexcept {
    return !is_forked() && core_->was_open();
}

}  // namespace rondo
