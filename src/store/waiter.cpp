// SPDX-License-Identifier: Apache-2.0
#include <rondo/detail/assert.hpp>
#include <rondo/detail/waiter.hpp>

#include <utility>

namespace rondo::detail {

void WaitList::link(Waiter& waiter, Place place, bool marked) noexcept {
    RONDO_ASSERT(!waiter.linked_, "a waiter waits in one place at a time");
    if (waiter.since_ == std::chrono::steady_clock::time_point{}) {
        waiter.since_ = std::chrono::steady_clock::now();
    }
    Waiter* before = tail_;
    if (place == Place::turn) {
        // From the head: whoever is refused was just taken from there.
        Waiter* behind = head_;
        while (behind != nullptr && behind->since_ <= waiter.since_) behind = behind->next_;
        before = behind == nullptr ? tail_ : behind->previous_;
    }
    waiter.marked_ = marked;
    link_behind(before, waiter);
}

void WaitList::link_behind(Waiter* before, Waiter& waiter) noexcept {
    waiter.linked_ = true;
    waiter.previous_ = before;
    waiter.next_ = before != nullptr ? before->next_ : head_;
    (before != nullptr ? before->next_ : head_) = &waiter;
    (waiter.next_ != nullptr ? waiter.next_->previous_ : tail_) = &waiter;
    ++size_;
}

bool WaitList::unlink(Waiter& waiter) noexcept {
    if (!waiter.linked_) return false;
    (waiter.previous_ != nullptr ? waiter.previous_->next_ : head_) = waiter.next_;
    (waiter.next_ != nullptr ? waiter.next_->previous_ : tail_) = waiter.previous_;
    waiter.previous_ = waiter.next_ = nullptr;
    waiter.linked_ = false;
    --size_;
    return true;
}

std::chrono::steady_clock::time_point WaitList::oldest() const noexcept {
    RONDO_ASSERT(head_ != nullptr, "oldest() needs a waiter");
    return head_->since_;
}

WaitList::Taken WaitList::take(std::uint64_t count) noexcept {
    Waiter* const first = head_;
    Waiter* last = nullptr;
    while (count-- > 0 && head_ != nullptr) {
        last = head_;
        last->linked_ = false;
        head_ = last->next_;
        --size_;
    }
    if (last == nullptr) return Taken{};
    last->next_ = nullptr;
    (head_ != nullptr ? head_->previous_ : tail_) = nullptr;
    return Taken{first};
}

WaitList::Taken WaitList::take_marked() noexcept {
    Waiter* chain = nullptr;
    for (Waiter* waiter = tail_; waiter != nullptr;) {
        Waiter* const before = waiter->previous_;
        if (waiter->marked_) {
            unlink(*waiter);
            waiter->next_ = std::exchange(chain, waiter);
        }
        waiter = before;
    }
    return Taken{chain};
}

WaitList::Taken::Taken(Taken&& other) noexcept : chain_{std::exchange(other.chain_, nullptr)} {}

WaitList::Taken::~Taken() {
    RONDO_ASSERT(chain_ == nullptr, "a waiter that was taken out must be woken");
}

void WaitList::Taken::wake_all() noexcept {
    while (chain_ != nullptr) {
        // The waiter may be gone as soon as it is woken, so its successor is read first.
        Waiter* const waiter = std::exchange(chain_, chain_->next_);
        waiter->wake();
    }
}

}  // namespace rondo::detail
