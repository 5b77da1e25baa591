// SPDX-License-Identifier: Apache-2.0
#include "pinning/pin_threads.hpp"

#include <atomic>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace rondo::detail {
namespace {

class PinThreads final : public asio::execution_context::service {
public:
    using key_type = PinThreads;
    static asio::execution_context::id id;

    explicit PinThreads(asio::execution_context& owner) : service{owner} {}

    void run(std::function<void()> work) {
        const std::lock_guard lock{mutex_};
        if (shut_down_) return;
        threads_.remove_if([](Entry& entry) {
            // order: acquire, pairs with the end of the thread, so that `join` is brief. Relaxed
            // would be as correct: `join` is what synchronises.
            if (!entry.done.load(std::memory_order_acquire)) return false;
            entry.thread.join();
            return true;
        });
        Entry& entry = threads_.emplace_back();
        try {
            entry.thread = std::thread{[&done = entry.done, work = std::move(work)]() mutable {
                work();
                work = nullptr;  // whatever it holds ends here, not when somebody joins
                done.store(true, std::memory_order_release);
            }};
        } catch (...) {
            threads_.pop_back();
            throw;
        }
    }

private:
    struct Entry {
        std::thread thread;
        std::atomic<bool> done{false};
    };

    void shutdown() override {
        std::list<Entry> threads;
        {
            const std::lock_guard lock{mutex_};
            shut_down_ = true;
            threads.swap(threads_);
        }
        for (Entry& entry : threads) entry.thread.join();
    }

    std::mutex mutex_;
    std::list<Entry> threads_;
    bool shut_down_ = false;
};

asio::execution_context::id PinThreads::id;

}  // namespace

void run_on_pin_thread_of(asio::execution_context& context, std::function<void()> work) {
    asio::use_service<PinThreads>(context).run(std::move(work));
}

}  // namespace rondo::detail
