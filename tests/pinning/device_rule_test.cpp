// SPDX-License-Identifier: Apache-2.0
#include "pinning/device_rule.hpp"

#include "pinning/dynamic_library.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using rondo::detail::choose_device;
using rondo::detail::DeviceFacts;
using rondo::detail::DynamicLibrary;
using rondo::detail::LoadedDriver;
using rondo::test::contains;
using rondo::test::ScopedVariable;
using rondo::test::StubMachine;

namespace {

DeviceFacts facts(std::optional<int> wanted, std::optional<int> callers, std::vector<int> active) {
    return {.count = 4, .wanted = wanted, .callers = callers, .active = std::move(active)};
}

}  // namespace

TEST_CASE(
    "choose_device: the option, else the caller's, else the only active one, else the first") {
    const auto chosen = [](const DeviceFacts& given) { return choose_device(given)->device; };
    CHECK(chosen(facts(3, 2, {1})) == 3);
    CHECK(chosen(facts({}, 2, {1})) == 2);
    CHECK(chosen(facts({}, {}, {1})) == 1);
    CHECK(chosen(facts({}, {}, {1, 2})) == 0);
    CHECK(chosen(facts({}, {}, {})) == 0);
    CHECK(chosen(facts({}, 9, {1})) == 1);  // a device that this runtime does not see
}

TEST_CASE("choose_device: says how it chose") {
    const auto reason = [](const DeviceFacts& given) { return choose_device(given)->reason; };
    CHECK_THAT(reason(facts(3, 2, {1})), contains("pin_device"));
    CHECK_THAT(reason(facts({}, 2, {1})), contains("current where the server was created"));
    CHECK_THAT(reason(facts({}, {}, {1})), contains("only device with an active context"));
    CHECK_THAT(reason(facts({}, {}, {1, 2})), contains("several devices"));
    CHECK_THAT(reason(facts({}, {}, {})), contains("no device has an active context"));
}

TEST_CASE("choose_device: a device that does not exist is refused, not replaced") {
    CHECK_FALSE(choose_device(facts(4, 2, {1})).has_value());
    CHECK_FALSE(choose_device(facts(-1, 2, {1})).has_value());
}

TEST_CASE("LoadedDriver: a driver that is not loaded is neither loaded nor asked") {
    const StubMachine machine;
    const auto file = machine.driver();
    const LoadedDriver driver{file};
    CHECK_FALSE(driver.current_device().has_value());
    CHECK(driver.active_devices(4).empty());
    CHECK(driver.version() == 0);
    CHECK(driver.device_name(0).empty());
    CHECK_FALSE(DynamicLibrary::find_loaded(file).has_value());
    CHECK(machine.calls().empty());
}

TEST_CASE("LoadedDriver: a loaded driver is asked, and not initialised") {
    const StubMachine machine;
    const auto file = machine.driver();
    REQUIRE(DynamicLibrary::open(file));
    const LoadedDriver driver{file};
    CHECK_FALSE(driver.current_device().has_value());

    const ScopedVariable three{"RONDO_STUB_DEVICES", "3"};
    const ScopedVariable current{"RONDO_STUB_CURRENT", "2"};
    const ScopedVariable active{"RONDO_STUB_ACTIVE", "0,2"};
    CHECK(driver.current_device() == 2);
    CHECK(driver.active_devices(3) == std::vector<int>{0, 2});
    CHECK(driver.version() == 12'080);
    CHECK(driver.device_name(1) == "Stub 1");
    for (const auto& call : machine.calls()) CHECK(call.function == "cuCtxGetCurrent");
}
