// SPDX-License-Identifier: Apache-2.0
#include "transport/io_threads.hpp"

#include "base/usable_cores.hpp"
#include <rondo/detail/log.hpp>

#include <asio/ip/tcp.hpp>

#include <algorithm>
#include <exception>
#include <string>

namespace rondo::detail {

namespace {

// A handler may throw for want of memory. That costs what it was about; the others are served on.
void run(asio::io_context& context) noexcept {
    for (;;) {
        try {
            context.run();
            return;
        } catch (const std::exception& error) {
            log_warning(std::string{"an I/O thread goes on after: "} + error.what());
        }
    }
}

}  // namespace

IoThreads::IoThreads(std::uint32_t count) {
    constexpr unsigned least = 1;
    constexpr unsigned most = 4;
    if (count == 0) count = std::clamp(usable_cores() / 2, least, most);
    for (std::size_t i = 0; i < count; ++i) {
        threads_.push_back(std::make_unique<IoThread>(i));
        // Asio makes a context's reactor with its first socket. Made now, so that it fails here and
        // not in the accept loop, should the process run out of descriptors meanwhile.
        const asio::ip::tcp::socket first{threads_.back()->context};
    }
    try {
        for (const auto& io : threads_) {
            io->thread = std::thread{[&context = io->context] { run(context); }};
        }
    } catch (...) {
        join();
        throw;
    }
}

IoThreads::~IoThreads() {
    join();
}

IoThread& IoThreads::next() noexcept {
    turn_ = (turn_ + 1) % threads_.size();
    return *threads_[turn_];
}

void IoThreads::join() noexcept {
    for (const auto& io : threads_) io->work.reset();
    for (const auto& io : threads_) {
        if (io->thread.joinable()) io->thread.join();
    }
}

}  // namespace rondo::detail
