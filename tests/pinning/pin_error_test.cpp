// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include <rondo/pin_error.hpp>

#include <algorithm>
#include <limits>
#include <type_traits>

using rondo::InvalidOptions;
using rondo::PinError;
using rondo::Registration;
using rondo::RingMemory;
using rondo::RuntimeUnavailable;
using rondo::test::contains;

static_assert(std::is_nothrow_move_constructible_v<PinError>);

TEST_CASE("PinError: gives back the reason that it was made of") {
    const PinError error{InvalidOptions{"batch_size", "0", "must be at least 1"}};
    REQUIRE(error.as<InvalidOptions>() != nullptr);
    CHECK(error.as<InvalidOptions>()->field == "batch_size");
    CHECK(error.as<RingMemory>() == nullptr);
    CHECK(std::holds_alternative<InvalidOptions>(error.reason()));
}

TEST_CASE("PinError: an invalid option is named with its value and its rule") {
    CHECK(PinError{InvalidOptions{"batch_size", "0", "must be at least 1"}}.message() ==
          "batch_size must be at least 1, but it is 0. Set ServerOptions::batch_size accordingly.");
    CHECK(PinError{InvalidOptions{"device", "", "must be a number"}}.message() ==
          "device must be a number, but it is empty. Set ServerOptions::device accordingly.");
}

TEST_CASE("PinError: a ring that does not fit now says what to wait for") {
    const PinError error{RingMemory{.wanted = 3'435'973'837,
                                    .available = 1023,
                                    .can_ever_fit = true,
                                    .limited_by = "MemAvailable"}};
    CHECK(error.message() ==
          "The ring needs 3.2 GiB (3435973837 bytes), but now only 1023 bytes (limited by "
          "MemAvailable) can be had. It would fit if memory were free: end what else uses it and "
          "try again, or ask for a smaller ring: fewer num_buffers, a smaller batch_size or "
          "sample.");
}

TEST_CASE("PinError: a ring that can never fit says which limit to raise") {
    const PinError error{RingMemory{.wanted = std::uint64_t{1} << 40,
                                    .available = 1536,
                                    .can_ever_fit = false,
                                    .limited_by = "cgroup memory.max of /sys/fs/cgroup/job"}};
    CHECK(error.message() ==
          "The ring needs 1.0 TiB (1099511627776 bytes), but this process can never have more than "
          "1.5 KiB (1536 bytes) (limited by cgroup memory.max of /sys/fs/cgroup/job), even if "
          "nothing else ran. Raise that limit, or ask for a smaller ring: fewer num_buffers, a "
          "smaller batch_size or sample.");
}

TEST_CASE("PinError: a ring beyond 64 bits is said to be larger than any number") {
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    const PinError error{RingMemory{.wanted = most,
                                    .available = most,
                                    .can_ever_fit = false,
                                    .limited_by = "64-bit address space"}};
    CHECK(error.message().starts_with(
        "The ring would need more than 16.0 EiB (18446744073709551615 bytes)"));
}

TEST_CASE("PinError: sizes are rounded to the unit that reads best") {
    const auto text = [](std::uint64_t bytes) {
        const auto message =
            PinError{RingMemory{
                         .wanted = bytes, .available = 0, .can_ever_fit = true, .limited_by = "x"}}
                .message();
        const std::string_view before = "The ring needs ";
        return message.substr(before.size(), message.find(',') - before.size());
    };
    CHECK(text(1) == "1 byte");
    CHECK(text(1024) == "1.0 KiB (1024 bytes)");
    CHECK(text((std::uint64_t{1} << 20) - 1) == "1.0 MiB (1048575 bytes)");
}

TEST_CASE("PinError: a missing runtime lists every attempt in order, then what to do") {
    const PinError error{RuntimeUnavailable{
        {{"already-loaded scan", "(none)", "no libcudart is mapped"},
         {"soname load", "libcudart.so.13", "cannot open shared object file:\nno such file"},
         {"driver API", "libcuda.so.1", "it sees no device"}}}};
    const auto message = error.message();
    const auto first = message.find("\n  1. already-loaded scan: (none): no libcudart is mapped\n");
    const auto second = message.find(
        "\n  2. soname load: libcudart.so.13: cannot open shared object file: no such file\n");
    const auto third = message.find("\n  3. driver API: libcuda.so.1: it sees no device\n");
    const auto remedy = message.find("pip install nvidia-cuda-runtime-cu12`");
    REQUIRE(third != message.npos);
    REQUIRE(remedy != message.npos);
    CHECK(first < second);
    CHECK(second < third);
    CHECK(third < remedy);
    CHECK(message.find("pip install nvidia-cuda-runtime`", remedy) != message.npos);
    CHECK(message.find("RONDO_CUDART", remedy) != message.npos);
    CHECK(std::ranges::count(message, '\n') == 4);

    CHECK(PinError{RuntimeUnavailable{}}.message().find("Nothing was tried.") != message.npos);
}

TEST_CASE("PinError: a refused registration names region, array, error and remedy") {
    Registration refused{.symbol = "cudaErrorMemoryAllocation",
                         .code = 2,
                         .region = 3,
                         .array = "obs/image",
                         .bytes = 2048,
                         .hint = "Raise the limit of the virtual machine."};
    CHECK(PinError{refused}.message() ==
          "Every region of the ring should be page-locked, but the runtime refused region 3 (array "
          "\"obs/image\", 2.0 KiB (2048 bytes)) with cudaErrorMemoryAllocation (2). What had been "
          "registered before it has been undone. Raise the limit of the virtual machine.");
    refused.hint.clear();
    CHECK(PinError{refused}.message().ends_with(
        "Run `rondo doctor` on this machine, or switch pin_host_memory off."));

    refused.call = "cudaHostRegister";
    refused.library = "/lib/libcudart.so.12";
    refused.device = 1;
    refused.device_reason = "ServerOptions::pin_device";
    CHECK_THAT(PinError{refused}.message(),
               contains("with cudaErrorMemoryAllocation (2) (cudaHostRegister of "
                        "/lib/libcudart.so.12, device 1: ServerOptions::pin_device). What had"));
}

TEST_CASE("PinError: a device that cannot be initialised is blamed on no region") {
    const Registration refused{.symbol = "cudaErrorDevicesUnavailable",
                               .code = 46,
                               .region = 0,
                               .array = "",
                               .bytes = 0,
                               .hint = "See nvidia-smi.",
                               .call = "cudaFree(nullptr)",
                               .library = "/lib/libcudart.so.12",
                               .device = 2,
                               .device_reason = "current where the server was created"};
    CHECK(PinError{refused}.message() ==
          "Every region of the ring should be page-locked, but the runtime could not initialise "
          "the device: cudaErrorDevicesUnavailable (46) (cudaFree(nullptr) of "
          "/lib/libcudart.so.12, device 2: current where the server was created). See nvidia-smi.");
}

TEST_CASE("PinError: an override that failed is the thing to correct") {
    const PinError error{RuntimeUnavailable{
        .attempts = {{"override by RONDO_CUDART", "/x/libcudart.so", "no such file"}},
        .overridden = true}};
    CHECK(error.message().ends_with(
        "  1. override by RONDO_CUDART: /x/libcudart.so: no such file\nNo other place is searched "
        "while ServerOptions::cudart or RONDO_CUDART is set: correct it, or remove it to have one "
        "searched for."));
}

TEST_CASE("PinError: a cancelled creation says that nothing is left of it") {
    CHECK_THAT(PinError{rondo::CreationCancelled{}}.message(), contains("undone"));
}
