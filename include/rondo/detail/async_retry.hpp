// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/deadline.hpp>
#include <rondo/detail/log.hpp>
#include <rondo/detail/wait_context.hpp>
#include <rondo/detail/waiter.hpp>

#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/execution/context.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/query.hpp>
#include <asio/steady_timer.hpp>
#include <asio/system_executor.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace rondo::detail {

/// Why a wait ended without its condition.
enum class WaitEnd : std::uint8_t { timed_out, cancelled };

/// An attempt whose result must not be destroyed unseen (`takes_for_good = true`), e.g. a lease. It
/// runs on the handler's executor only, right before the handler.
template <typename Attempt>
concept TakesForGood = requires {
    requires Attempt::takes_for_good;
};

/// An attempt that takes nothing of what its waiter was woken for (`only_looks = true`).
template <typename Attempt>
concept OnlyLooks = requires {
    requires Attempt::only_looks;
};

/// An operation that tries, and waits while it is refused: the one asynchronous wait of rondo.
///
/// `Attempt` has `using Result`, `std::optional<Result> operator()()` (nothing: refused) and
/// `Result give_up(WaitEnd)`. The first attempt is part of the initiating function, unless it takes
/// for good; all others run on the handler's executor.
///
/// Ownership: a suspended operation belongs to whoever unlinks it from its wait point (a waker, its
/// cancellation slot, its timer, or the dying execution context); from then on to the completion
/// that was posted. That completion is the permit: run, it tries again; destroyed unrun, it passes
/// the permit on.
template <typename Attempt, typename Handler>
class AsyncRetry final : public Waiter, public ContextWait {
public:
    using Result = typename Attempt::Result;

    /// Tries, and completes through the executor, or suspends. Called by an initiating function,
    /// so the handler never runs before this returns.
    static void start(std::shared_ptr<WaitPoint> point, Attempt attempt, Deadline deadline,
                      Handler handler) {
        if constexpr (TakesForGood<Attempt>) {
            AsyncRetry* const op =
                create(std::move(point), std::move(attempt), deadline, std::move(handler));
            op->connect_slot();
            op->post_completion();  // as if woken
        } else {
            if (auto result = attempt()) {
                post_result(std::move(handler), std::move(*result));
                return;
            }
            if (deadline.passed()) {
                auto result = attempt.give_up(WaitEnd::timed_out);
                post_result(std::move(handler), std::move(result));
                return;
            }
            AsyncRetry* const op =
                create(std::move(point), std::move(attempt), deadline, std::move(handler));
            op->connect_slot();
            if (auto result = op->suspend()) {
                op->disconnect_timer();
                op->disconnect_slot();
                const auto work = std::move(op->work_);  // or a context without other work stops
                auto own = op->take_handler_and_free();
                post_result(std::move(own), std::move(*result));
            }
        }
    }

    void wake() noexcept override {
        // A copy: once posted, the operation may complete and take its own reference with it.
        const std::shared_ptr<WaitContext> context = context_;
        context->post(*this);
    }

private:
    using Executor = asio::associated_executor_t<Handler>;
    using Allocator = typename std::allocator_traits<
        asio::associated_allocator_t<Handler>>::template rebind_alloc<AsyncRetry>;
    using AllocatorTraits = std::allocator_traits<Allocator>;

    /// What the timer's handler may touch: the operation, as long as it is suspended.
    struct TimerLink {
        std::mutex mutex;
        AsyncRetry* op = nullptr;
        bool only_warns = false;
        bool expired = false;
    };

    struct Completion {
        explicit Completion(AsyncRetry* waiting) noexcept : op{waiting} {}
        Completion(Completion&& other) noexcept : op{std::exchange(other.op, nullptr)} {}
        Completion& operator=(Completion&&) = delete;
        Completion(const Completion&) = delete;
        Completion& operator=(const Completion&) = delete;
        ~Completion() {
            if (op != nullptr) op->destroy_unrun();
        }
        void operator()() { std::exchange(op, nullptr)->resume(); }

        using allocator_type = asio::associated_allocator_t<Handler>;
        allocator_type get_allocator() const noexcept {
            return asio::get_associated_allocator(op->handler_);
        }

        AsyncRetry* op;
    };

    /// After a handler that may or may not have used the permit.
    struct PassOn {
        std::shared_ptr<WaitPoint> point;
        explicit PassOn(std::shared_ptr<WaitPoint> to) noexcept : point{std::move(to)} {}
        PassOn(const PassOn&) = delete;
        PassOn& operator=(const PassOn&) = delete;
        ~PassOn() {
            if (point != nullptr) point->pass_on_one();
        }
    };

    AsyncRetry(std::shared_ptr<WaitPoint> point, Attempt attempt, Deadline deadline,
               Handler handler)
        : handler_{std::move(handler)},
          attempt_{std::move(attempt)},
          point_{std::move(point)},
          work_{asio::get_associated_executor(handler_)},
          context_{WaitContext::of(
              asio::query(context_executor(work_.get_executor()), asio::execution::context))},
          deadline_{deadline} {}

    ~AsyncRetry() = default;

    // The executor, or, where it belongs to no execution context (`asio::use_future` brings such a
    // one), the system's that it runs on.
    static auto context_executor(const Executor& executor) {
        if constexpr (asio::can_query<const Executor&, asio::execution::context_t>::value) {
            return executor;
        } else {
            return asio::system_executor{};
        }
    }

    static AsyncRetry* create(std::shared_ptr<WaitPoint> point, Attempt attempt, Deadline deadline,
                              Handler handler) {
        Allocator allocator{asio::get_associated_allocator(handler)};
        AsyncRetry* const memory = AllocatorTraits::allocate(allocator, 1);
        try {
            return new (memory)
                AsyncRetry{std::move(point), std::move(attempt), deadline, std::move(handler)};
        } catch (...) {
            AllocatorTraits::deallocate(allocator, memory, 1);
            throw;
        }
    }

    Handler take_handler_and_free() {
        Handler handler = std::move(handler_);
        Allocator allocator{asio::get_associated_allocator(handler)};
        this->~AsyncRetry();
        AllocatorTraits::deallocate(allocator, this, 1);
        return handler;
    }

    static void post_result(Handler handler, Result result) {
        const auto executor = asio::get_associated_executor(handler);
        struct Bound {
            Handler handler;
            Result result;
            using allocator_type = asio::associated_allocator_t<Handler>;
            allocator_type get_allocator() const noexcept {
                return asio::get_associated_allocator(handler);
            }
            void operator()() { std::move(handler)(std::move(result)); }
        };
        asio::post(executor, Bound{std::move(handler), std::move(result)});
    }

    void connect_slot() {
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) {
            slot.assign([this](asio::cancellation_type type) {
                if (type != asio::cancellation_type::none) cancel();
            });
        }
    }

    void start_timer() {
        const auto warning = deadline_.never() ? point_->warning() : std::nullopt;
        if (deadline_.never() && !warning) return;
        link_ = std::make_shared<TimerLink>();
        link_->op = this;
        link_->only_warns = warning.has_value();
        timer_.emplace(context_executor(work_.get_executor()));
        timer_->expires_at(warning ? Deadline{warning->after}.at() : deadline_.at());
        timer_->async_wait([link = link_](const std::error_code& error) {
            if (!error) on_timer(*link);
        });
    }

    static void on_timer(TimerLink& link) {
        const std::lock_guard lock{link.mutex};
        // Even without an operation: it may have found its deadline ahead, and be about to suspend.
        link.expired = !link.only_warns;
        if (link.op == nullptr) return;
        if (link.only_warns) {
            if (const auto warning = link.op->point_->warning()) log_warning(warning->line);
            return;
        }
        link.op->expire();
    }

    // With link_->mutex held, which keeps the operation alive.
    void expire() noexcept {
        if (!point_->cancel(*this)) return;  // not linked yet, or woken: they look at the deadline
        end_ = WaitEnd::timed_out;
        wake();
    }

    // Runs where the handler would run, by Asio's rule for cancellation slots.
    void cancel() noexcept {
        stop_requested_ = true;  // a permit may be on its way: it is passed on
        if (!point_->cancel(*this)) return;
        end_ = WaitEnd::cancelled;
        wake();
    }

    // Links the operation and returns nothing, or a result if there is one without waiting. After
    // nothing, the operation may already have completed on another thread.
    std::optional<Result> suspend() {
        const Place place = std::exchange(waited_, true) ? Place::turn : Place::back;
        if (place == Place::back) {
            start_timer();
        } else if (link_ != nullptr) {
            const std::lock_guard lock{link_->mutex};
            link_->op = this;
        }
        const std::shared_ptr<TimerLink> link = link_;  // the operation may be gone once linked
        for (;;) {
            if (!context_->add(*this)) {
                destroy_unrun();
                return std::nullopt;
            }
            if (point_->enqueue(*this, place)) break;
            context_->remove(*this);
            if (auto result = attempt_()) return result;
        }
        if (link != nullptr) {
            // The timer may have expired before there was a wait to end.
            const std::lock_guard lock{link->mutex};
            if (link->expired && link->op != nullptr) link->op->expire();
        }
        return std::nullopt;
    }

    // On the handler's executor, owning the operation.
    void resume() {
        disconnect_timer();
        if (end_) return complete(attempt_.give_up(*end_));
        if (stop_requested_) {
            // Whoever cancels may drop the result unseen, so nothing is taken any more.
            point_->pass_on();
            return complete(attempt_.give_up(WaitEnd::cancelled));
        }
        if (auto result = attempt_()) {
            const PassOn unused{OnlyLooks<Attempt> ? point_ : nullptr};
            return complete(std::move(*result));
        }
        if (deadline_.passed()) return complete(attempt_.give_up(WaitEnd::timed_out));
        if (auto result = suspend()) {
            disconnect_timer();
            complete(std::move(*result));
        }
    }

    void disconnect_timer() noexcept {
        if (link_ == nullptr) return;
        const std::lock_guard lock{link_->mutex};
        link_->op = nullptr;
    }

    void disconnect_slot() noexcept {
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) slot.clear();
    }

    void complete(Result result) {
        disconnect_slot();
        auto work = std::move(work_);  // the executor has work until the handler has run
        auto handler = take_handler_and_free();
        std::move(handler)(std::move(result));
    }

    void post_completion() override { asio::post(work_.get_executor(), Completion{this}); }

    bool claim() noexcept override {
        if (!point_->cancel(*this)) return false;
        end_ = WaitEnd::cancelled;  // it holds no permit
        return true;
    }

    void destroy_unrun() noexcept override {
        disconnect_timer();
        const std::shared_ptr<WaitPoint> point = end_ ? nullptr : std::move(point_);
        { [[maybe_unused]] const Handler unrun = take_handler_and_free(); }
        if (point != nullptr) point->pass_on();
    }

    Handler handler_;
    Attempt attempt_;
    std::shared_ptr<WaitPoint> point_;
    asio::executor_work_guard<Executor> work_;
    std::shared_ptr<WaitContext> context_;
    Deadline deadline_;
    std::shared_ptr<TimerLink> link_;
    std::optional<asio::steady_timer> timer_;
    std::optional<WaitEnd> end_;
    bool stop_requested_ = false;
    bool waited_ = false;
};

/// Starts an `AsyncRetry` with a completion token. `point` and `attempt` are taken by value: they
/// are named objects before any `co_await` (g++ 12 destroys some temporaries twice there).
template <typename Attempt, typename CompletionToken>
auto async_retry(std::shared_ptr<WaitPoint> point, Attempt attempt, Deadline deadline,
                 CompletionToken&& token) {
    return asio::async_initiate<CompletionToken, void(typename Attempt::Result)>(
        [](auto handler, std::shared_ptr<WaitPoint> where, Attempt what, Deadline until) {
            AsyncRetry<Attempt, decltype(handler)>::start(std::move(where), std::move(what), until,
                                                          std::move(handler));
        },
        token, std::move(point), std::move(attempt), deadline);
}

}  // namespace rondo::detail
