// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pinning/pin_api.hpp"

#include <cstdint>
#include <string>

namespace rondo::detail {

/// Codes that runtime and driver share, but for insufficient_driver, which only the runtime has.
namespace cuda_error {
inline constexpr int memory_allocation = 2;
inline constexpr int initialization = 3;  ///< of the driver: not initialised
inline constexpr int unloading = 4;
inline constexpr int insufficient_driver = 35;
inline constexpr int devices_unavailable = 46;
inline constexpr int no_device = 100;
inline constexpr int operating_system = 304;
inline constexpr int context_destroyed = 709;
inline constexpr int already_registered = 712;
inline constexpr int not_registered = 713;
inline constexpr int not_supported = 801;
inline constexpr int system_not_ready = 802;
inline constexpr int driver_mismatch = 803;
inline constexpr int not_supported_on_device = 804;
}  // namespace cuda_error

/// What a code's usual cause depends on.
struct ErrorCircumstances {
    bool wsl = false;              ///< the kernel is that of the Windows Subsystem for Linux
    std::uint64_t ring_bytes = 0;  ///< of all regions together; 0 if none was registered yet
};

/// Of this machine.
[[nodiscard]] bool running_on_wsl();

/// What usually causes the error and what to do about it, in sentences; empty if it is not known.
[[nodiscard]] std::string hint_for(int code, const ErrorCircumstances& circumstances);

/// True for a code of an unlock that happens while the process ends and the driver is going or
/// gone: whatever was locked is not any more.
[[nodiscard]] bool means_unloading(int code) noexcept;

/// "cudaGetDeviceCount: cudaErrorInsufficientDriver (35)".
[[nodiscard]] std::string describe(PinApi& api, const CallResult& result);

}  // namespace rondo::detail
