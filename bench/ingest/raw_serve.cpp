// SPDX-License-Identifier: Apache-2.0
#include "base/usable_cores.hpp"
#include "ingest/driver.hpp"
#include "ingest/programs.hpp"
#include "ingest/raw_socket.hpp"
#include "transport/socket_calls.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <memory>
#include <span>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thread>
#include <vector>

namespace rondo::bench {
namespace {

/// As large as the buffer of rondo's I/O threads, and a whole sample at least.
constexpr std::uint64_t least_receive = std::uint64_t{256} << 10;

/// As many samples as rondo reads in one call, if they have 44 arrays.
constexpr std::size_t slots_read = IOV_MAX / 44;

/// rondo reads larger samples in place, and lets the kernel wait for a whole one.
constexpr std::uint64_t largest_unmarked = 8'192;

/// A thread that receives from its connections in turn, into its share of the memory.
class Receiver {
public:
    Receiver(std::span<std::byte> memory, const RawServeOptions& options)
        : memory_{memory},
          options_{options},
          receive_bytes_{std::min<std::uint64_t>(
              memory.size(), options.vectored ? slots_read * options.payload_bytes
                                              : std::max(least_receive, options.payload_bytes))} {}

    void add(int socket) const {
        if (options_.payload_bytes > largest_unmarked) {
            detail::set_low_water_mark(socket, options_.payload_bytes);
        }
        epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
        checked(::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event), "epoll_ctl");
    }

    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(); }

    void run() {
        std::array<epoll_event, 64> events{};
        for (;;) {
            const int ready =
                ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
            for (int i = 0; i < ready; ++i) receive(events[static_cast<std::size_t>(i)].data.fd);
        }
    }

private:
    void receive(int socket) {
        if (at_ + receive_bytes_ > memory_.size()) at_ = 0;
        std::byte* const to = memory_.data() + at_;
        const ssize_t got = options_.vectored ? read_samples(socket, to)
                                              : ::recv(socket, to, receive_bytes_, MSG_DONTWAIT);
        if (got > 0) {
            at_ += static_cast<std::uint64_t>(got);
            bytes_.store(bytes_.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(got));
        } else if (got == 0) {
            (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);
        }
    }

    // One iovec for each sample, as if each had a place of its own.
    ssize_t read_samples(int socket, std::byte* to) {
        std::array<iovec, slots_read> slots{};
        int count = 0;
        for (std::uint64_t at = 0; at < receive_bytes_; at += options_.payload_bytes) {
            const std::uint64_t size = std::min(options_.payload_bytes, receive_bytes_ - at);
            slots[static_cast<std::size_t>(count++)] = {.iov_base = to + at, .iov_len = size};
        }
        return ::readv(socket, slots.data(), count);
    }

    const std::span<std::byte> memory_;
    const RawServeOptions& options_;
    const std::uint64_t receive_bytes_;
    const int epoll_ = checked(::epoll_create1(0), "epoll_create1");
    std::uint64_t at_ = 0;
    std::atomic<std::uint64_t> bytes_{0};
};

std::span<std::byte> touched_memory(std::uint64_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    checked(memory == MAP_FAILED ? -1 : 0, "mmap");
    ::madvise(memory, bytes, MADV_HUGEPAGE);
    const std::span span{static_cast<std::byte*>(memory), bytes};
    std::ranges::fill(span, std::byte{1});
    return span;
}

}  // namespace

int raw_serve(const RawServeOptions& options) {
    const auto memory = touched_memory(
        std::max(least_receive, options.payload_bytes * options.batch_size * options.num_buffers));
    const unsigned threads = std::clamp(detail::usable_cores() / 2, 1U, 4U);  // as rondo has
    std::vector<std::unique_ptr<Receiver>> receivers;
    for (unsigned i = 0; i < threads; ++i) {
        const auto share = memory.size() / threads;
        receivers.push_back(std::make_unique<Receiver>(memory.subspan(i * share, share), options));
        std::thread{[receiver = receivers.back().get()] { receiver->run(); }}.detach();
    }
    const Listener listener = listen_raw();
    auto& driver = *new Driver{listener.port};  // see ~Driver
    std::thread{[&] {
        for (std::size_t turn = 0;; ++turn) {
            const int socket = checked(::accept(listener.socket, nullptr, nullptr), "accept");
            receivers[turn % receivers.size()]->add(socket);
        }
    }}.detach();
    std::uint64_t read = 0;
    for (Ages none;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
        std::uint64_t bytes = 0;
        for (const auto& receiver : receivers) bytes += receiver->bytes();
        const std::uint64_t samples = bytes / options.payload_bytes;
        if (samples == read || !driver.wants_reading()) continue;  // each reading has its samples
        Driver::print_reading(samples, none);
        read = samples;
    }
}

}  // namespace rondo::bench
