// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rondo::detail {

/// What the choice of a device rests on.
struct DeviceFacts {
    int count = 0;               ///< devices that the runtime sees
    std::optional<int> wanted;   ///< ServerOptions::pin_device
    std::optional<int> callers;  ///< whose context was current where `create` was called
    std::vector<int> active;     ///< devices with an active primary context, ascending
};

struct DeviceChoice {
    int device = 0;
    std::string reason;  ///< e.g. "the only device with an active context"
};

/// The option, else the caller's, else the only active one, else 0: so no context appears on device
/// 0 behind the back of a process that works on another. Nothing if `wanted` does not exist.
[[nodiscard]] std::optional<DeviceChoice> choose_device(const DeviceFacts& facts);

/// What the driver can be asked without initialising it, if somebody has loaded it. A value.
class LoadedDriver {
public:
    /// Looks for a loaded libcuda; loads nothing.
    explicit LoadedDriver(const std::string& soname);

    /// The device of the context that is current on the calling thread.
    [[nodiscard]] std::optional<int> current_device() const noexcept;

    /// Those with an active primary context. Nothing before the driver is initialised.
    [[nodiscard]] std::vector<int> active_devices(int count) const;

    [[nodiscard]] int version() const noexcept;                ///< 0 if not known
    [[nodiscard]] std::string device_name(int ordinal) const;  ///< empty if not known

private:
    int (*ctx_get_current_)(void** context) = nullptr;
    int (*ctx_get_device_)(int* device) = nullptr;
    int (*device_get_)(int* device, int ordinal) = nullptr;
    int (*device_get_name_)(char* name, int size, int device) = nullptr;
    int (*primary_ctx_get_state_)(int device, unsigned* flags, int* active) = nullptr;
    int (*driver_get_version_)(int* version) = nullptr;
};

}  // namespace rondo::detail
