// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pinning/entry_points.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace rondo::detail {

/// What a call of CUDA came to: which function, and its code (0: success).
struct CallResult {
    const char* call = "";
    int code = 0;

    [[nodiscard]] bool ok() const noexcept { return code == 0; }
};

/// The calls that page-locking needs, over the runtime or over the driver.
///
/// Owns nothing of CUDA but what `adopt` says. Thread-safety: every member may be called from any
/// thread, after `adopt` returned.
class PinApi {
public:
    PinApi() = default;
    PinApi(const PinApi&) = delete;
    PinApi& operator=(const PinApi&) = delete;
    virtual ~PinApi() = default;

    [[nodiscard]] virtual const char* name() const noexcept = 0;  ///< "CUDA runtime", "CUDA driver"

    /// How many devices there are. Creates no context.
    [[nodiscard]] virtual CallResult count_devices(int& count) noexcept = 0;

    /// As the library numbers it, e.g. 12040 for 12.4; 0 if it does not say.
    [[nodiscard]] virtual int version() noexcept = 0;

    /// Makes the device the calling thread's own, and initialises it (some 200 ms). The caller
    /// gives the thread up afterwards, or takes it as it is. Called once, before `lock`.
    [[nodiscard]] virtual CallResult adopt(int device) noexcept = 0;

    /// Page-locks whole pages, for all devices. On a thread that adopted the device.
    [[nodiscard]] virtual CallResult lock(void* memory, std::size_t bytes) noexcept = 0;

    /// Asks whether one byte is page-locked.
    [[nodiscard]] virtual CallResult verify(void* byte) noexcept = 0;

    /// Undoes `lock`. On a thread that adopted the device, or inside `with_device`.
    [[nodiscard]] virtual CallResult unlock(void* memory) noexcept = 0;

    /// Runs `work` on a thread whose device is `device`, the calling one if possible, and waits for
    /// it. The calling thread's own choice of a device is afterwards what it was before, and no
    /// context has appeared on another device. Fails, without `work`, if the device cannot be had.
    [[nodiscard]] virtual CallResult with_device(int device,
                                                 const std::function<void()>& work) noexcept = 0;

    /// The symbol of an error code, e.g. "cudaErrorInsufficientDriver".
    [[nodiscard]] virtual std::string error_name(int code) = 0;

    /// Forgets the error that the last call left behind for the thread's next caller.
    virtual void clear_last_error() noexcept = 0;
};

[[nodiscard]] std::shared_ptr<PinApi> make_pin_api(const RuntimeEntryPoints& entry_points);
[[nodiscard]] std::shared_ptr<PinApi> make_pin_api(const DriverEntryPoints& entry_points);

}  // namespace rondo::detail
