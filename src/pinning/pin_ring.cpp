// SPDX-License-Identifier: Apache-2.0
#include "pinning/pin_ring.hpp"

#include "pinning/device_rule.hpp"
#include "pinning/error_codes.hpp"
#include "pinning/loaded_objects.hpp"
#include "pinning/registration.hpp"
#include "pinning/resolve.hpp"
#include "ring/layout.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

namespace rondo::detail {
namespace {

std::vector<LockRegion> lock_regions(const Ring& ring) {
    std::vector<LockRegion> regions;
    regions.reserve(ring.regions().size());
    for (const Ring::Region& region : ring.regions()) {
        regions.push_back({region.data, region.bytes, ring.layout().arrays()[region.array].stride});
    }
    return regions;
}

/// Fills in what every `Registration` error has in common.
Registration refused(const PinReport& report, PinApi& api, const CallResult& result,
                     std::uint64_t ring_bytes) {
    Registration error;
    error.call = result.call;
    error.symbol = api.error_name(result.code);
    error.code = result.code;
    error.library = report.library;
    error.device = report.device.value_or(0);
    error.device_reason = report.device_reason;
    error.hint = hint_for(result.code, {.wsl = running_on_wsl(), .ring_bytes = ring_bytes});
    return error;
}

std::optional<PinError> find_runtime(PinReport& report, Resolution& resolution,
                                     const SearchPlan& plan) {
    resolution = resolve(plan);
    report.attempts = resolution.attempts;
    if (resolution.api == nullptr) {
        return PinError{RuntimeUnavailable{report.attempts, resolution.forced}};
    }
    report.rung = resolution.rung;
    report.library = resolution.library;
    report.api = resolution.api->name();
    report.api_version = resolution.api->version();
    return std::nullopt;
}

std::optional<PinError> find_device(PinReport& report, int count, const std::string& driver_soname,
                                    const PinRequest& request) {
    const LoadedDriver driver{driver_soname};  // loaded by whatever counted the devices
    report.driver_version = driver.version();
    const auto active = driver.active_devices(count);
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        report.devices.push_back({ordinal, driver.device_name(ordinal),
                                  std::ranges::find(active, ordinal) != active.end()});
    }
    auto choice = choose_device({.count = count,
                                 .wanted = request.device,
                                 .callers = request.callers_device,
                                 .active = active});
    if (!choice) {
        return PinError{InvalidOptions{"pin_device", std::to_string(request.device.value_or(-1)),
                                       "must be at least 0 and less than " + std::to_string(count) +
                                           ", the number of devices"}};
    }
    report.device = choice->device;
    report.device_reason = std::move(choice->reason);
    return std::nullopt;
}

std::optional<PinError> lock(PinReport& report, std::shared_ptr<PinApi> api, Ring& ring,
                             const SampleSpec& spec) {
    const int device = *report.device;
    if (const CallResult adopted = api->adopt(device); !adopted.ok()) {
        api->clear_last_error();
        return PinError{refused(report, *api, adopted, 0)};
    }
    const auto regions = lock_regions(ring);
    auto locked = LockedRegions::create(api, device, regions);
    if (!locked) {
        auto error = refused(report, *api, locked.error().result, ring.layout().total_bytes());
        const Ring::Region& region = ring.regions()[locked.error().region];
        error.region = locked.error().region;
        error.array = spec.arrays()[region.array].path;
        error.bytes = region.bytes;
        return PinError{std::move(error)};
    }
    report.bytes = locked->bytes();
    ring.keep_until_unmapped(std::make_shared<LockedRegions>(std::move(*locked)));
    return std::nullopt;
}

/// A ring of two arrays: enough to see that whole regions are locked, and one after the other.
PinReport pin_small_ring(const PinRequest& request) {
    PinReport report;
    const auto spec =
        SampleSpec::create({{"first", dtype::uint8, {1024}}, {"second", dtype::float32, {1024}}});
    auto layout = RingLayout::create(*spec, 8, 2);
    auto ring = Ring::create(std::move(*layout), {.huge_pages = false, .pinned = true});
    if (!ring) {
        report.error = std::move(ring).error();
        return report;
    }
    return pin_ring(*ring, *spec, request);
}

}  // namespace

PinRequest make_pin_request(std::optional<int> device, std::string cudart,
                            std::vector<std::string> site_directories) {
    SearchContext context{.cudart = std::move(cudart),
                          .site_directories = {site_directories.begin(), site_directories.end()}};
    std::map<std::string, std::string, std::less<>> environment;
    for (const char* const name : searched_variables) {
        environment.emplace(name, environment_variable(name));
    }
    PinRequest request;
    request.plan = [context = std::move(context), environment = std::move(environment)]() mutable {
        context.variable = [&environment](const char* name) { return environment.at(name); };
        context.loaded_objects = loaded_objects();
        return make_search_plan(context);
    };
    request.device = device;
    request.callers_device = LoadedDriver{default_driver_soname}.current_device();
    return request;
}

PinReport pin_ring(Ring& ring, const SampleSpec& spec, const PinRequest& request) {
    const SearchPlan plan = request.plan();
    PinReport report;
    Resolution resolution;
    report.error = find_runtime(report, resolution, plan);
    if (!report.error) {
        report.error = find_device(report, resolution.device_count, plan.driver_soname, request);
    }
    if (!report.error) report.error = lock(report, resolution.api, ring, spec);
    return report;
}

PinReport diagnose_pinning(const PinRequest& request) {
    PinReport report;
    if (auto failed = on_pin_thread([&] { report = pin_small_ring(request); })) {
        report.attempts = failed->as<RuntimeUnavailable>()->attempts;
        report.error = std::move(failed);
    }
    return report;
}

std::optional<PinError> on_pin_thread(const std::function<void()>& work) {
    std::exception_ptr thrown;
    try {
        std::thread thread{[&]() noexcept {
            try {
                work();
            } catch (...) {
                thrown = std::current_exception();
            }
        }};
        thread.join();
    } catch (const std::system_error& error) {
        return no_pin_thread(error.what());
    }
    if (thrown) std::rethrow_exception(thrown);
    return std::nullopt;
}

PinError no_pin_thread(const std::string& reason) {
    return PinError{
        RuntimeUnavailable{{{"pin thread", "(none)", "no thread could be started: " + reason}}}};
}

}  // namespace rondo::detail
