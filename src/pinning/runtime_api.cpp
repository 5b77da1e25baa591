// SPDX-License-Identifier: Apache-2.0
#include "pinning/pin_api.hpp"

#include <exception>
#include <thread>

namespace rondo::detail {
namespace {

constexpr unsigned host_register_portable = 0x01;  // cudaHostRegisterPortable

class RuntimeApi final : public PinApi {
public:
    explicit RuntimeApi(const RuntimeEntryPoints& entry_points) noexcept : cuda_{entry_points} {}

    [[nodiscard]] const char* name() const noexcept override { return "CUDA runtime"; }

    [[nodiscard]] CallResult count_devices(int& count) noexcept override {
        return {"cudaGetDeviceCount", cuda_.get_device_count(&count)};
    }

    [[nodiscard]] int version() noexcept override {
        int version = 0;
        return cuda_.runtime_get_version(&version) == 0 ? version : 0;
    }

    [[nodiscard]] CallResult adopt(int device) noexcept override {
        if (const int code = cuda_.set_device(device); code != 0) return {"cudaSetDevice", code};
        // Frees nothing. Before CUDA 12 cudaSetDevice initialises nothing either, and then the
        // first registration would be blamed for what is wrong with the device.
        return {"cudaFree(nullptr)", cuda_.free(nullptr)};
    }

    [[nodiscard]] CallResult lock(void* memory, std::size_t bytes) noexcept override {
        return {"cudaHostRegister", cuda_.host_register(memory, bytes, host_register_portable)};
    }

    [[nodiscard]] CallResult verify(void* byte) noexcept override {
        unsigned flags = 0;
        return {"cudaHostGetFlags", cuda_.host_get_flags(&flags, byte)};
    }

    [[nodiscard]] CallResult unlock(void* memory) noexcept override {
        return {"cudaHostUnregister", cuda_.host_unregister(memory)};
    }

    [[nodiscard]] CallResult with_device(int device,
                                         const std::function<void()>& work) noexcept override {
        int current = -1;
        if (const int code = cuda_.get_device(&current); code != 0) return {"cudaGetDevice", code};
        if (current == device) {
            work();
            return {};
        }
        // Setting the device here and setting it back would not do: since CUDA 12 the latter makes
        // a context on the device that was current, which for a thread that never chose is 0.
        CallResult adopted;
        const auto elsewhere = [&]() noexcept {
            adopted = {"cudaSetDevice", cuda_.set_device(device)};
            if (adopted.ok()) work();
        };
        try {
            std::thread{elsewhere}.join();
        } catch (const std::exception&) {
            // No thread to be had. A context too many is better than memory locked for good.
            elsewhere();
            if (adopted.ok()) (void)cuda_.set_device(current);
        }
        return adopted;
    }

    [[nodiscard]] std::string error_name(int code) override {
        const char* const name = cuda_.get_error_name(code);
        return name != nullptr ? name : "unrecognized error code";
    }

    void clear_last_error() noexcept override { (void)cuda_.get_last_error(); }

private:
    const RuntimeEntryPoints cuda_;
};

}  // namespace

std::shared_ptr<PinApi> make_pin_api(const RuntimeEntryPoints& entry_points) {
    return std::make_shared<RuntimeApi>(entry_points);
}

}  // namespace rondo::detail
