// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/execution_context.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>

namespace rondo::detail {

class WaitContext;

/// An asynchronous wait as its execution context sees it.
class ContextWait {
public:
    ContextWait() = default;
    ContextWait(const ContextWait&) = delete;
    ContextWait& operator=(const ContextWait&) = delete;

protected:
    ~ContextWait() = default;

private:
    friend class WaitContext;
    virtual void post_completion() = 0;         ///< hands the wait to its executor
    virtual bool claim() noexcept = 0;          ///< unlinks it from its wait point
    virtual void destroy_unrun() noexcept = 0;  ///< frees it and its handler, which never runs
    ContextWait* previous_ = nullptr;
    ContextWait* next_ = nullptr;
};

/// The waits whose handlers run on one execution context.
///
/// A suspended wait sits in a list of the store, which can outlive the context that the handler
/// belongs to. Asio's rule is that a context destroys, unrun, the handlers that it still holds when
/// it dies; this service keeps that rule for ours, whoever dies first. Thread-safe. Held by
/// shared_ptr, since a waker may be the last to leave `post`.
class WaitContext {
public:
    /// The one of this execution context, made on first use.
    [[nodiscard]] static std::shared_ptr<WaitContext> of(asio::execution_context& context);

    /// Announces a wait before it is linked. False if the context is being destroyed.
    [[nodiscard]] bool add(ContextWait& wait) noexcept;

    /// Takes back `add` for a wait that was not suspended after all.
    void remove(ContextWait& wait) noexcept;

    /// Ends a wait whose handler must run: posts its completion, or, if the context is being
    /// destroyed, leaves it for `shutdown` to destroy. Called once, by who unlinked the wait.
    void post(ContextWait& wait) noexcept;

    /// Destroys every wait of the context. Returns once no waker is inside `post` for it.
    void shutdown() noexcept;

private:
    void unlink(ContextWait& wait) noexcept;

    std::mutex mutex_;
    std::condition_variable changed_;
    ContextWait* head_ = nullptr;
    ContextWait* orphans_ = nullptr;  ///< unlinked from `head_`, to be destroyed by `shutdown`
    bool shut_down_ = false;
};

}  // namespace rondo::detail
