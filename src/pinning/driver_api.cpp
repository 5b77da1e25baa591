// SPDX-License-Identifier: Apache-2.0
#include "pinning/fork_guard.hpp"
#include "pinning/pin_api.hpp"

#include <cstdint>

namespace rondo::detail {
namespace {

constexpr unsigned mem_host_register_portable = 0x01;  // CU_MEMHOSTREGISTER_PORTABLE
constexpr int pointer_attribute_memory_type = 2;       // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned memory_type_host = 1;               // CU_MEMORYTYPE_HOST
constexpr int invalid_value = 1;                       // CUDA_ERROR_INVALID_VALUE

/// Holds the adopted device's primary context, the one that the runtime uses too.
class DriverApi final : public PinApi {
public:
    explicit DriverApi(const DriverEntryPoints& entry_points) noexcept : cuda_{entry_points} {}
    DriverApi(const DriverApi&) = delete;
    DriverApi& operator=(const DriverApi&) = delete;

    ~DriverApi() override {
        // Nobody is left to be told; in a driver that is unloading it fails, which is as good.
        if (context_ != nullptr && !guard_.forked()) (void)cuda_.primary_ctx_release(device_);
    }

    [[nodiscard]] const char* name() const noexcept override { return "CUDA driver"; }

    [[nodiscard]] CallResult count_devices(int& count) noexcept override {
        if (const int code = cuda_.init(0); code != 0) return {"cuInit", code};
        return {"cuDeviceGetCount", cuda_.device_get_count(&count)};
    }

    [[nodiscard]] int version() noexcept override {
        int version = 0;
        return cuda_.driver_get_version(&version) == 0 ? version : 0;
    }

    [[nodiscard]] CallResult adopt(int device) noexcept override {
        if (const int code = cuda_.device_get(&device_, device); code != 0) {
            return {"cuDeviceGet", code};
        }
        if (const int code = cuda_.primary_ctx_retain(&context_, device_); code != 0) {
            context_ = nullptr;
            return {"cuDevicePrimaryCtxRetain", code};
        }
        return {"cuCtxPushCurrent", cuda_.ctx_push_current(context_)};
    }

    [[nodiscard]] CallResult lock(void* memory, std::size_t bytes) noexcept override {
        return {"cuMemHostRegister",
                cuda_.mem_host_register(memory, bytes, mem_host_register_portable)};
    }

    [[nodiscard]] CallResult verify(void* byte) noexcept override {
        unsigned type = 0;
        const int code = cuda_.pointer_get_attribute(&type, pointer_attribute_memory_type,
                                                     reinterpret_cast<std::uintptr_t>(byte));
        return {"cuPointerGetAttribute",
                code == 0 && type != memory_type_host ? invalid_value : code};
    }

    [[nodiscard]] CallResult unlock(void* memory) noexcept override {
        return {"cuMemHostUnregister", cuda_.mem_host_unregister(memory)};
    }

    [[nodiscard]] CallResult with_device(int /*device: the one adopted*/,
                                         const std::function<void()>& work) noexcept override {
        if (const int code = cuda_.ctx_push_current(context_); code != 0) {
            return {"cuCtxPushCurrent", code};
        }
        work();
        DriverContext popped = nullptr;
        return {"cuCtxPopCurrent", cuda_.ctx_pop_current(&popped)};
    }

    [[nodiscard]] std::string error_name(int code) override {
        const char* name = nullptr;
        if (cuda_.get_error_name(code, &name) != 0 || name == nullptr) {
            return "unrecognized error code";
        }
        return name;
    }

    void clear_last_error() noexcept override {}  // the driver keeps none

private:
    const DriverEntryPoints cuda_;
    DriverDevice device_ = 0;
    DriverContext context_ = nullptr;
    ForkGuard guard_;
};

}  // namespace

std::shared_ptr<PinApi> make_pin_api(const DriverEntryPoints& entry_points) {
    return std::make_shared<DriverApi>(entry_points);
}

}  // namespace rondo::detail
