// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pinning/search_plan.hpp"
#include "ring/ring.hpp"
#include <rondo/pin_error.hpp>
#include <rondo/spec.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rondo::detail {

/// What pinning is to do, and what only the thread that asks for it knows. A value.
struct PinRequest {
    /// Called on the pin thread: it looks into directories, which may be slow.
    std::function<SearchPlan()> plan;
    std::optional<int> device;          ///< ServerOptions::pin_device
    std::optional<int> callers_device;  ///< of the context that was current there
};

/// Reads the environment and the calling thread's CUDA context now; loads and initialises nothing.
[[nodiscard]] PinRequest make_pin_request(std::optional<int> device, std::string cudart,
                                          std::vector<std::string> site_directories);

/// All that came to light while memory was being page-locked.
struct PinReport {
    struct Device {
        int ordinal = 0;
        std::string name;     ///< empty if it is not known
        bool active = false;  ///< had a primary context before ours
    };

    std::vector<RuntimeUnavailable::Attempt> attempts;  ///< the whole ladder, "(none)" included
    std::string rung;        ///< where the runtime was found; empty: nowhere
    std::string library;     ///< its file
    std::string api;         ///< "CUDA runtime" or "CUDA driver"
    int api_version = 0;     ///< as the library numbers it, e.g. 13000
    int driver_version = 0;  ///< 0 if it is not known
    std::vector<Device> devices;
    std::optional<int> device;  ///< the one chosen
    std::string device_reason;  ///< and why
    std::uint64_t bytes = 0;    ///< registered and verified
    std::optional<PinError> error;
};

/// Page-locks every region of the ring, until the ring unmaps it. Everything runs on the calling
/// thread and leaves a device current there: call it on a thread of its own (`on_pin_thread`).
/// Errors: the report's; nothing is locked then.
[[nodiscard]] PinReport pin_ring(Ring& ring, const SampleSpec& spec, const PinRequest& request);

/// Page-locks, verifies and frees a small ring on a thread of its own: does pinning work here?
[[nodiscard]] PinReport diagnose_pinning(const PinRequest& request);

/// Runs `work` on a new thread and waits for it. Errors: `RuntimeUnavailable`, without `work`, if
/// there is no thread to be had. An exception of `work` is thrown here.
[[nodiscard]] std::optional<PinError> on_pin_thread(const std::function<void()>& work);

/// What `on_pin_thread` says when it cannot.
[[nodiscard]] PinError no_pin_thread(const std::string& reason);

}  // namespace rondo::detail
