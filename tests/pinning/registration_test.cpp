// SPDX-License-Identifier: Apache-2.0
#include "pinning/registration.hpp"

#include "pinning/error_codes.hpp"
#include "ring/layout.hpp"
#include "support.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <set>
#include <sys/wait.h>
#include <thread>

using rondo::detail::CallResult;
using rondo::detail::DriverContext;
using rondo::detail::DriverEntryPoints;
using rondo::detail::hint_for;
using rondo::detail::lock_part_bytes;
using rondo::detail::LockedRegions;
using rondo::detail::LockRegion;
using rondo::detail::make_pin_api;
using rondo::detail::page_size;
using rondo::detail::PinApi;
using rondo::detail::RuntimeEntryPoints;
using rondo::test::CapturedLog;
using rondo::test::contains;

namespace {

using Calls = std::vector<std::string>;

/// The one CUDA of this process, under the control of the running test.
struct Cuda {
    Calls calls;
    std::set<const void*> locked;
    int locks = 0;
    int lock_to_fail = 0;  ///< the n-th, from 1 on
    int verifies = 0;
    int verify_to_fail = 0;  ///< the n-th, from 1 on
    int fail_with = 2;
    int unlock_code = 0;
    int last_error = 0;
    std::set<int> contexts;
    std::set<int> unlocked_on;  ///< the devices of the threads that unlocked
};

Cuda cuda;
thread_local int thread_device = 0;

/// The memory of a test is never touched, so an address serves as its name.
std::byte* address(std::uint64_t page) {
    return reinterpret_cast<std::byte*>((page + 1) * page_size());
}

std::string name_of(const void* memory) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    const auto offset = at % page_size();
    return std::to_string(at / page_size() - 1) + (offset == 0 ? "" : "+" + std::to_string(offset));
}

int lock(void* memory, std::size_t bytes, unsigned flags) {
    cuda.calls.push_back("lock " + name_of(memory) + ' ' + std::to_string(bytes / page_size()));
    CHECK(flags == 1);  // portable
    cuda.contexts.insert(thread_device);
    if (++cuda.locks == cuda.lock_to_fail) return cuda.last_error = cuda.fail_with;
    CHECK(cuda.locked.insert(memory).second);
    return 0;
}

int unlock(void* memory) {
    cuda.calls.push_back("unlock " + name_of(memory));
    cuda.contexts.insert(thread_device);
    cuda.unlocked_on.insert(thread_device);
    if (cuda.unlock_code != 0) return cuda.last_error = cuda.unlock_code;
    CHECK(cuda.locked.erase(memory) == 1);
    return 0;
}

int verify() {
    if (++cuda.verifies == cuda.verify_to_fail) return cuda.last_error = cuda.fail_with;
    return 0;
}

RuntimeEntryPoints runtime() {
    RuntimeEntryPoints table;
    table.host_register = lock;
    table.host_unregister = unlock;
    table.get_error_name = [](int code) {
        return code == 2 ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
    };
    table.free = [](void*) {
        cuda.contexts.insert(thread_device);
        return 0;
    };
    table.get_last_error = [] {
        cuda.calls.emplace_back("clear");
        return std::exchange(cuda.last_error, 0);
    };
    table.host_get_flags = [](unsigned* flags, void* memory) {
        *flags = 1;
        cuda.calls.push_back("verify " + name_of(memory));
        return verify();
    };
    table.set_device = [](int device) {
        thread_device = device;
        cuda.contexts.insert(device);
        return 0;
    };
    table.get_device = [](int* device) {
        *device = thread_device;
        return 0;
    };
    table.get_device_count = [](int* count) {
        *count = 4;
        return 0;
    };
    table.runtime_get_version = [](int* version) {
        *version = 12'000;
        return 0;
    };
    return table;
}

DriverEntryPoints driver() {
    DriverEntryPoints table;
    table.init = [](unsigned) { return 0; };
    table.device_get = [](int* device, int ordinal) {
        *device = ordinal;
        return 0;
    };
    table.primary_ctx_retain = [](DriverContext* context, int device) {
        *context = reinterpret_cast<DriverContext>(address(static_cast<std::uint64_t>(device)));
        cuda.calls.push_back("retain " + std::to_string(device));
        return 0;
    };
    table.primary_ctx_release = [](int device) {
        cuda.calls.push_back("release " + std::to_string(device));
        return 0;
    };
    table.ctx_push_current = [](DriverContext context) {
        cuda.calls.push_back("push " + name_of(context));
        return 0;
    };
    table.ctx_pop_current = [](DriverContext*) {
        cuda.calls.emplace_back("pop");
        return 0;
    };
    table.mem_host_register = lock;
    table.mem_host_unregister = unlock;
    table.pointer_get_attribute = [](void* value, int attribute, unsigned long long memory) {
        *static_cast<unsigned*>(value) = 1;
        cuda.calls.push_back("verify " +
                             name_of(reinterpret_cast<const void*>(std::uintptr_t{memory})));
        CHECK(attribute == 2);
        return verify();
    };
    table.get_error_name = [](int, const char** name) {
        *name = "CUDA_ERROR_OUT_OF_MEMORY";
        return 0;
    };
    table.driver_get_version = [](int* version) {
        *version = 12'000;
        return 0;
    };
    return table;
}

/// `count` regions of one page each, with a gap between them.
std::vector<LockRegion> pages(std::size_t count) {
    std::vector<LockRegion> regions;
    for (std::size_t i = 0; i < count; ++i) {
        regions.push_back({address(2 * i), page_size(), page_size()});
    }
    return regions;
}

auto locked(std::size_t count, int device = 0) {
    return LockedRegions::create(make_pin_api(runtime()), device, pages(count));
}

void reset() {
    cuda = {};
    thread_device = 0;
}

const std::string last_byte = "+" + std::to_string(page_size() - 1);

}  // namespace

TEST_CASE("LockedRegions: every region is locked and verified, and unlocked in reverse") {
    reset();
    {
        const auto regions = locked(3);
        REQUIRE(regions.has_value());
        CHECK(regions->bytes() == 3 * page_size());
        CHECK(cuda.calls == Calls{"lock 0 1", "verify 0", "verify 0" + last_byte,  //
                                  "lock 2 1", "verify 2", "verify 2" + last_byte,  //
                                  "lock 4 1", "verify 4", "verify 4" + last_byte});
        CHECK(cuda.locked.size() == 3);
        cuda.calls.clear();
    }
    CHECK(cuda.calls == Calls{"unlock 4", "unlock 2", "unlock 0"});
}

TEST_CASE("LockedRegions: a failure at any of 0 to 8 regions undoes exactly what was done") {
    for (std::size_t count = 0; count <= 8; ++count) {
        reset();
        CHECK(locked(count).has_value());
        CHECK(cuda.locked.empty());
        for (std::size_t failing = 0; failing < count; ++failing) {
            for (const bool by_verify : {false, true}) {
                CAPTURE(count, failing, by_verify);
                reset();
                (by_verify ? cuda.verify_to_fail : cuda.lock_to_fail) =
                    static_cast<int>(by_verify ? 2 * failing + 2 : failing + 1);
                const auto regions = locked(count);
                REQUIRE_FALSE(regions.has_value());
                CHECK(regions.error().region == failing);
                CHECK(regions.error().result.code == 2);
                CHECK(regions.error().result.call ==
                      std::string{by_verify ? "cudaHostGetFlags" : "cudaHostRegister"});
                CHECK(cuda.locked.empty());
                CHECK(cuda.last_error == 0);

                Calls undone;
                std::ranges::copy_if(cuda.calls, std::back_inserter(undone),
                                     [](const auto& call) { return call.starts_with("unlock"); });
                Calls expected;
                for (std::size_t i = failing + (by_verify ? 1 : 0); i-- > 0;) {
                    expected.push_back("unlock " + std::to_string(2 * i));
                }
                CHECK(undone == expected);
                CHECK(cuda.calls.back() == "clear");
            }
        }
    }
}

TEST_CASE("LockedRegions: no code counts as success, not even of memory that is locked already") {
    for (const int code : {1, 2, 3, 4, 100, 304, 712, 713, 801, 999}) {
        reset();
        cuda.lock_to_fail = 2;
        cuda.fail_with = code;
        const auto regions = locked(3);
        REQUIRE_FALSE(regions.has_value());
        CHECK(regions.error().result.code == code);
        CHECK(cuda.locked.empty());
    }
}

TEST_CASE("LockedRegions: empty regions are skipped, and the others keep their index") {
    reset();
    auto regions = pages(3);
    regions[0].bytes = 0;
    cuda.lock_to_fail = 2;
    const auto result = LockedRegions::create(make_pin_api(runtime()), 0, regions);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().region == 2);
    CHECK(cuda.locks == 2);
}

TEST_CASE("LockedRegions: a large region is locked in parts that end on buffers' edges") {
    const std::uint64_t page = 4096;
    const auto part = [&](std::uint64_t bytes, std::uint64_t stride, std::uint64_t limit) {
        return lock_part_bytes({nullptr, bytes, stride}, limit, page);
    };
    CHECK(part(16 * page, page, 16 * page) == 16 * page);  // not above the limit
    CHECK(part(16 * page, 3 * page, 7 * page) == 6 * page);
    CHECK(part(16 * page, 9 * page, 7 * page) == 9 * page);        // a buffer stays whole
    CHECK(part(300 * page, page / 64 * 3, 7 * page) == 6 * page);  // 64 buffers in 3 pages
    CHECK(part(2 * page, page / 64 * 3, page) == 2 * page);        // no edge is a page's

    reset();
    const LockRegion region{address(0), 10 * page_size(), 2 * page_size()};
    const auto regions =
        LockedRegions::create(make_pin_api(runtime()), 0, {&region, 1}, 5 * page_size());
    REQUIRE(regions.has_value());
    CHECK(cuda.calls == Calls{"lock 0 4", "verify 0", "verify 3" + last_byte,  //
                              "lock 4 4", "verify 4", "verify 7" + last_byte,  //
                              "lock 8 2", "verify 8", "verify 9" + last_byte});
}

TEST_CASE("LockedRegions: moving unlocks nothing twice, assignment unlocks what was there") {
    reset();
    auto first = std::move(*locked(2));
    LockedRegions second{std::move(first)};
    CHECK(cuda.locked.size() == 2);
    cuda.calls.clear();
    second = LockedRegions{*locked(0)};
    CHECK(cuda.locked.empty());
    CHECK(cuda.calls == Calls{"unlock 2", "unlock 0"});
    first = std::move(*locked(1));  // a moved-from object can be used again
    CHECK(cuda.locked.size() == 1);
}

TEST_CASE("LockedRegions: a thread on another device unlocks on ours, and keeps its own") {
    reset();
    std::thread{[] {
        thread_device = 1;
        cuda.contexts = {1};
        auto regions = locked(1, 1);
        std::thread{[&] { regions = locked(0, 1); }}.join();  // its device is 0
    }}.join();
    CHECK(cuda.locked.empty());
    CHECK(cuda.unlocked_on == std::set<int>{1});
    CHECK(cuda.contexts == std::set<int>{1});  // above all none on 0
}

TEST_CASE("LockedRegions: the driver gets its context for as long as the unlocking takes") {
    reset();
    {
        const auto api = make_pin_api(driver());
        REQUIRE(api->adopt(1).ok());
        const auto regions = LockedRegions::create(api, 1, pages(1));
        REQUIRE(regions.has_value());
    }
    CHECK(cuda.calls == Calls{"retain 1", "push 1", "lock 0 1", "verify 0", "verify 0" + last_byte,
                              "push 1", "unlock 0", "pop", "release 1"});
}

TEST_CASE("LockedRegions: memory that the driver does not call page-locked is refused") {
    reset();
    auto table = driver();
    table.pointer_get_attribute = [](void* value, int, unsigned long long) {
        *static_cast<unsigned*>(value) = 2;  // device memory
        return 0;
    };
    const auto regions = LockedRegions::create(make_pin_api(table), 0, pages(1));
    REQUIRE_FALSE(regions.has_value());
    CHECK(regions.error().result.call == std::string{"cuPointerGetAttribute"});
    CHECK(cuda.locked.empty());
}

TEST_CASE("LockedRegions: a driver that is unloading is no news, every other refusal is") {
    for (const int code : {4, 713, 999}) {
        reset();
        const CapturedLog log;
        {
            const auto regions = locked(2);
            cuda.unlock_code = code;
        }
        CAPTURE(code);
        CHECK(log.lines().size() == (code == 4 ? 0U : 2U));
        if (code == 713) CHECK_THAT(log.lines().at(0), contains("has reset the device"));
        CHECK(std::ranges::count(cuda.calls, "unlock 0") == 1);  // it goes on
        CHECK(cuda.last_error == (code == 4 ? 4 : 0));
    }
}

TEST_CASE("LockedRegions: a forked child unlocks nothing, and says so") {
    reset();
    auto regions = locked(2);
    REQUIRE(regions.has_value());
    cuda.calls.clear();
    const pid_t child = ::fork();
    if (child == 0) {
        const CapturedLog log;
        { const auto taken = std::move(*regions); }
        ::_exit(cuda.calls.empty() && log.lines().size() == 1 &&
                        log.lines()[0].find("forked child") != std::string::npos
                    ? 0
                    : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(cuda.locked.size() == 2);
}

TEST_CASE("hint_for: known codes have a remedy that fits the machine") {
    CHECK_THAT(hint_for(2, {.wsl = true, .ring_bytes = 1}), contains(".wslconfig"));
    CHECK_THAT(hint_for(2, {.wsl = false, .ring_bytes = std::uint64_t{513} << 30}),
               contains("512 GiB"));
    CHECK_THAT(hint_for(2, {.wsl = false, .ring_bytes = 1}), contains("ring smaller"));
    CHECK_THAT(hint_for(2, {}), contains("pin_device"));
    CHECK_THAT(hint_for(3, {}), contains("forked"));
    CHECK_THAT(hint_for(35, {}), contains("driver is missing, or older"));
    CHECK_THAT(hint_for(100, {}), contains("CUDA_VISIBLE_DEVICES"));
    CHECK_THAT(hint_for(712, {}), contains("page-locked these pages before"));
    CHECK_THAT(hint_for(801, {}), contains("cannot page-lock existing memory"));
    CHECK(hint_for(999, {}).empty());
}
