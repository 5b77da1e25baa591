// SPDX-License-Identifier: Apache-2.0
#include <rondo/detail/wait_context.hpp>

#include <utility>

namespace rondo::detail {
namespace {

/// Ties a `WaitContext` to its execution context's life. Asio shuts services down in the reverse
/// order of their creation, so ours goes before the scheduler that it posts to.
class WaitService final : public asio::execution_context::service {
public:
    using key_type = WaitService;
    static asio::execution_context::id id;

    explicit WaitService(asio::execution_context& owner) : service{owner} {}

    const std::shared_ptr<WaitContext> waits = std::make_shared<WaitContext>();

private:
    void shutdown() override { waits->shutdown(); }
};

asio::execution_context::id WaitService::id;

}  // namespace

std::shared_ptr<WaitContext> WaitContext::of(asio::execution_context& context) {
    return asio::use_service<WaitService>(context).waits;
}

bool WaitContext::add(ContextWait& wait) noexcept {
    const std::lock_guard lock{mutex_};
    if (shut_down_) return false;
    wait.previous_ = nullptr;
    wait.next_ = head_;
    if (head_ != nullptr) head_->previous_ = &wait;
    head_ = &wait;
    return true;
}

void WaitContext::remove(ContextWait& wait) noexcept {
    const std::lock_guard lock{mutex_};
    unlink(wait);
    if (shut_down_) changed_.notify_all();
}

void WaitContext::post(ContextWait& wait) noexcept {
    const std::lock_guard lock{mutex_};
    unlink(wait);
    if (!shut_down_) {
        wait.post_completion();
        return;
    }
    // The context waits for us in shutdown(), and destroys what we leave.
    wait.next_ = std::exchange(orphans_, &wait);
    changed_.notify_all();
}

void WaitContext::shutdown() noexcept {
    std::unique_lock lock{mutex_};
    shut_down_ = true;
    for (ContextWait* wait = head_; wait != nullptr;) {
        ContextWait* const next = wait->next_;
        // Not claimed: a waker has it, and is on its way to post().
        if (wait->claim()) {
            unlink(*wait);
            wait->next_ = std::exchange(orphans_, wait);
        }
        wait = next;
    }
    changed_.wait(lock, [this] { return head_ == nullptr; });
    ContextWait* orphan = std::exchange(orphans_, nullptr);
    lock.unlock();  // handlers may own anything, other waits included
    while (orphan != nullptr) {
        std::exchange(orphan, orphan->next_)->destroy_unrun();
    }
}

void WaitContext::unlink(ContextWait& wait) noexcept {
    (wait.previous_ != nullptr ? wait.previous_->next_ : head_) = wait.next_;
    if (wait.next_ != nullptr) wait.next_->previous_ = wait.previous_;
}

}  // namespace rondo::detail
