// SPDX-License-Identifier: Apache-2.0
#include "server/server_creation.hpp"

#include "pinning/pin_threads.hpp"
#include "spec/checked.hpp"

#include <array>
#include <limits>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace rondo::detail {
namespace {

std::optional<PinError> check(const ServerOptions& options) {
    if (options.io_threads > 64) {
        return PinError{InvalidOptions{"io_threads", std::to_string(options.io_threads),
                                       "must be at most 64; 0 chooses"}};
    }
    if (options.pin_device && *options.pin_device < 0) {
        return PinError{InvalidOptions{"pin_device", std::to_string(*options.pin_device),
                                       "must be at least 0"}};
    }
    return std::nullopt;
}

/// What `create` throws as std::bad_alloc: a thread of ours has nobody to throw it to.
PinError out_of_memory(const ServerRequest& request) noexcept {
    const std::array factors{request.options.batch_size, request.options.num_buffers,
                             request.spec.payload_bytes()};
    constexpr auto more_than_that = std::numeric_limits<std::uint64_t>::max();
    return PinError{RingMemory{
        .wanted = checked_product(factors).value_or(more_than_that),
        .available = 0,
        .can_ever_fit = true,
        .limited_by = "std::bad_alloc",  // short, so that it needs no allocation
    }};
}

}  // namespace

ServerRequest make_server_request(SampleSpec spec, const ServerOptions& options) {
    ServerRequest request{.spec = std::move(spec), .options = options, .pin = std::nullopt};
    if (options.pin_host_memory) {
        request.pin =
            make_pin_request(options.pin_device, std::string{options.cudart},
                             {options.site_directories.begin(), options.site_directories.end()});
    }
    request.options.cudart = {};
    request.options.site_directories = {};
    return request;
}

MadeCore make_core(const ServerRequest& request) {
    const ServerOptions& options = request.options;
    if (auto error = check(options)) return tl::unexpected{std::move(*error)};
    auto layout = RingLayout::create(request.spec, options.batch_size, options.num_buffers);
    if (!layout) return tl::unexpected{std::move(layout).error()};
    auto ring = Ring::create(std::move(*layout), {.huge_pages = options.huge_pages,
                                                  .prefault = options.prefault,
                                                  .pinned = options.pin_host_memory});
    if (!ring) return tl::unexpected{std::move(ring).error()};
    if (request.pin) {
        auto report = pin_ring(*ring, request.spec, *request.pin);
        if (report.error) return tl::unexpected{std::move(*report.error)};
    }
    auto store = std::make_shared<Store>(std::move(*ring), options.deliver_short_batch);
    return std::make_shared<ServerCore>(request.spec, options, std::move(store));
}

void ServerCreation::run() noexcept {
    try {
        finish(make_core(request_));
    } catch (const std::bad_alloc&) {
        fail_for_memory();
    }
}

void ServerCreation::fail_for_memory() noexcept {
    finish(tl::unexpected{out_of_memory(request_)});
}

void ServerCreation::finish(MadeCore made) noexcept {
    std::unique_lock lock{mutex_};
    made_.emplace(std::move(made));
    WaitList::Taken waiter = waiter_.take(1);
    lock.unlock();
    waiter.wake_all();
}

std::optional<MadeCore> ServerCreation::take() noexcept {
    const std::lock_guard lock{mutex_};
    return std::exchange(made_, std::nullopt);
}

bool ServerCreation::enqueue(Waiter& waiter, Place place) noexcept {
    const std::lock_guard lock{mutex_};
    if (made_) return false;
    waiter_.link(waiter, place);
    return true;
}

bool ServerCreation::cancel(Waiter& waiter) noexcept {
    const std::lock_guard lock{mutex_};
    return waiter_.unlink(waiter);
}

std::shared_ptr<ServerCreation> prepare_creation(SampleSpec spec, const ServerOptions& options) {
    return std::make_shared<ServerCreation>(make_server_request(std::move(spec), options));
}

void start_creation(const std::shared_ptr<ServerCreation>& creation,
                    asio::execution_context& context) {
    try {
        run_on_pin_thread_of(context, [creation] { creation->run(); });
    } catch (const std::system_error& error) {
        creation->finish(tl::unexpected{no_pin_thread(error.what())});
    } catch (const std::bad_alloc&) {
        creation->fail_for_memory();
    }
}

std::shared_ptr<WaitPoint> end_of(const std::shared_ptr<ServerCreation>& creation) {
    return creation;
}

std::optional<CreateAttempt::Result> CreateAttempt::operator()() const {
    auto made = creation->take();
    if (!made) return std::nullopt;
    if (!*made) return Result{tl::unexpected{std::move(*made).error()}};
    return Result{Server{std::move(**made)}};
}

CreateAttempt::Result CreateAttempt::give_up(WaitEnd /*end: it has no deadline*/) const {
    return tl::unexpected{PinError{CreationCancelled{}}};
}

}  // namespace rondo::detail
