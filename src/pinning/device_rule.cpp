// SPDX-License-Identifier: Apache-2.0
#include "pinning/device_rule.hpp"

#include "pinning/dynamic_library.hpp"

#include <array>

namespace rondo::detail {
namespace {

bool exists(std::optional<int> device, int count) {
    return device && *device >= 0 && *device < count;
}

}  // namespace

std::optional<DeviceChoice> choose_device(const DeviceFacts& facts) {
    if (facts.wanted) {
        if (!exists(facts.wanted, facts.count)) return std::nullopt;
        return DeviceChoice{*facts.wanted, "ServerOptions::pin_device"};
    }
    if (exists(facts.callers, facts.count)) {
        return DeviceChoice{*facts.callers, "current where the server was created"};
    }
    if (facts.active.size() == 1 && exists(facts.active.front(), facts.count)) {
        return DeviceChoice{facts.active.front(), "the only device with an active context"};
    }
    return DeviceChoice{0, facts.active.empty()
                               ? "the first: no device has an active context yet"
                               : "the first: several devices have an active context, and none is "
                                 "current where the server was created"};
}

LoadedDriver::LoadedDriver(const std::string& soname) {
    if (soname.empty()) return;
    const auto library = DynamicLibrary::find_loaded(soname);
    if (!library) return;
    const auto find = [&]<typename Function>(const char* symbol, Function& function) {
        function = reinterpret_cast<Function>(library->symbol(symbol));
    };
    find("cuCtxGetCurrent", ctx_get_current_);
    find("cuCtxGetDevice", ctx_get_device_);
    find("cuDeviceGet", device_get_);
    find("cuDeviceGetName", device_get_name_);
    find("cuDevicePrimaryCtxGetState", primary_ctx_get_state_);
    find("cuDriverGetVersion", driver_get_version_);
}

std::optional<int> LoadedDriver::current_device() const noexcept {
    if (ctx_get_current_ == nullptr || ctx_get_device_ == nullptr) return std::nullopt;
    void* context = nullptr;
    if (ctx_get_current_(&context) != 0 || context == nullptr) return std::nullopt;
    int device = -1;  // a CUdevice, whose value is the ordinal
    if (ctx_get_device_(&device) != 0) return std::nullopt;
    return device;
}

std::vector<int> LoadedDriver::active_devices(int count) const {
    std::vector<int> active_ones;
    if (device_get_ == nullptr || primary_ctx_get_state_ == nullptr) return active_ones;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        int device = -1;
        unsigned flags = 0;
        int active = 0;
        if (device_get_(&device, ordinal) == 0 &&
            primary_ctx_get_state_(device, &flags, &active) == 0 && active != 0) {
            active_ones.push_back(ordinal);
        }
    }
    return active_ones;
}

int LoadedDriver::version() const noexcept {
    int version = 0;
    if (driver_get_version_ == nullptr || driver_get_version_(&version) != 0) return 0;
    return version;
}

std::string LoadedDriver::device_name(int ordinal) const {
    int device = -1;
    std::array<char, 256> name{};
    if (device_get_ == nullptr || device_get_name_ == nullptr ||
        device_get_(&device, ordinal) != 0 ||
        device_get_name_(name.data(), static_cast<int>(name.size()) - 1, device) != 0) {
        return {};
    }
    return name.data();
}

}  // namespace rondo::detail
