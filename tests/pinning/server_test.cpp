// SPDX-License-Identifier: Apache-2.0
// Servers over stub runtimes.
#include "support.hpp"
#include "support/catch.hpp"
#include <rondo/server.hpp>

#include <algorithm>
#include <set>
#include <sys/wait.h>
#include <thread>

using rondo::InvalidOptions;
using rondo::PinError;
using rondo::Registration;
using rondo::RingMemory;
using rondo::RuntimeUnavailable;
using rondo::Sample;
using rondo::SampleSpec;
using rondo::Server;
using rondo::ServerOptions;
using rondo::test::CapturedLog;
using rondo::test::contains;
using rondo::test::read_calls;
using rondo::test::ScopedVariable;
using rondo::test::StubCall;
using rondo::test::StubMachine;

namespace {

SampleSpec spec_of(const std::string& text) {
    auto spec = SampleSpec::parse(text);
    REQUIRE(spec.has_value());
    return *std::move(spec);
}

/// `count` arrays that fill a region of 2 pages each, and one of 0 bytes.
SampleSpec spec_with(std::size_t count) {
    std::vector<rondo::ArraySpec> arrays{{"nothing", rondo::dtype::float32, {0}}};
    for (std::size_t i = 0; i < count; ++i) {
        arrays.push_back({"a" + std::to_string(i), rondo::dtype::uint8, {4096}});
    }
    return *SampleSpec::create(arrays);
}

/// A machine with one runtime, and the options for a server that uses it.
class Pinned : public StubMachine {
public:
    [[nodiscard]] ServerOptions options() const {
        return {.batch_size = 1, .num_buffers = 2, .pin_host_memory = true, .cudart = library_};
    }
    [[nodiscard]] const std::string& library() const { return library_; }

    [[nodiscard]] Server server(const SampleSpec& spec) const {
        auto made = Server::create(spec, options());
        if (!made) FAIL(made.error().message());
        return *std::move(made);
    }

    /// The addresses that are page-locked now.
    [[nodiscard]] std::set<std::string> locked() const {
        std::set<std::string> addresses;
        for (const auto& call : calls()) {
            if (call["code"] != "0") continue;
            if (call.function == "cudaHostRegister") addresses.insert(call["memory"]);
            if (call.function == "cudaHostUnregister") addresses.erase(call["memory"]);
        }
        return addresses;
    }

private:
    std::string library_ = runtime("libcudart.so.12");
};

rondo::Batch next_batch(Server& server) {
    const Sample sample{server.spec()};
    const auto inserted = server.try_insert(sample);
    REQUIRE(inserted.has_value());
    REQUIRE(*inserted);
    auto batch = server.try_sample();
    REQUIRE(batch.has_value());
    REQUIRE(batch->has_value());
    return *std::move(*batch);
}

std::ptrdiff_t threads() {
    using Iterator = std::filesystem::directory_iterator;
    return std::distance(Iterator{"/proc/self/task"}, Iterator{});
}

std::uint64_t number(const std::string& text) {
    return std::stoull(text, nullptr, 0);
}

/// The flags of the mapping that holds the address, as /proc/self/smaps lists them.
std::string mapping_flags(const void* address) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    std::ifstream smaps{"/proc/self/smaps"};
    bool inside = false;
    for (std::string line; std::getline(smaps, line);) {
        unsigned long begin = 0;
        unsigned long end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
            inside = begin <= wanted && wanted < end;
        } else if (inside && line.starts_with("VmFlags:")) {
            return line + ' ';
        }
    }
    return {};
}

}  // namespace

TEST_CASE("pinned server: every region is locked, resident, portable and verified, in order") {
    const Pinned machine;
    std::vector<std::string> locked;
    {
        auto server = machine.server(spec_of("obs:float32[4],none:uint8[0],image:uint8[70000]"));
        const auto batch = next_batch(server);
        const auto calls = machine.calls();
        std::vector<std::string> functions;
        for (const auto& call : calls) functions.push_back(call.function);
        CHECK(functions ==
              std::vector<std::string>{"cudaGetDeviceCount", "context", "cudaSetDevice", "cudaFree",
                                       "cudaHostRegister", "cudaHostGetFlags", "cudaHostGetFlags",
                                       "cudaHostRegister", "cudaHostGetFlags", "cudaHostGetFlags"});
        const StubCall& obs = calls[4];
        const StubCall& image = calls[7];
        CHECK(calls[3]["memory"] == "null");
        for (const StubCall* const call : {&obs, &image}) {
            CHECK((*call)["flags"] == "1");
            CHECK((*call)["resident"] == "yes");
        }
        CHECK(number(obs["memory"]) ==
              reinterpret_cast<std::uintptr_t>(batch.array<float>("obs").data()));
        CHECK(number(image["memory"]) ==
              reinterpret_cast<std::uintptr_t>(batch.array<std::uint8_t>("image").data()));
        CHECK(number(image["bytes"]) >= 2 * 70'000);
        CHECK(number(calls[8]["memory"]) == number(image["memory"]));
        CHECK(number(calls[9]["memory"]) == number(image["memory"]) + number(image["bytes"]) - 1);
        locked = {obs["memory"], image["memory"]};
        machine.forget_calls();
    }
    const auto undone = machine.calls("cudaHostUnregister");
    REQUIRE(undone.size() == 2);
    CHECK(undone[0]["memory"] == locked[1]);  // in reverse
    CHECK(undone[1]["memory"] == locked[0]);
    for (const auto& call : undone) CHECK(call["mapped"] == "yes");
}

TEST_CASE("pinned server: one dedicated thread does it, and none is left when create returns") {
    const Pinned machine;
    const auto before = threads();
    const auto server = machine.server(spec_with(3));
    CHECK(threads() == before);
    std::set<std::string> on;
    for (const auto& call : machine.calls()) {
        CHECK(call["threads"] == std::to_string(before + 1));
        on.insert(call["thread"]);
    }
    CHECK(on.size() == 1);
    CHECK(*on.begin() != std::to_string(::gettid()));
}

TEST_CASE(
    "pinned server: a failure at any of up to 8 regions leaves nothing, and can be repeated") {
    const Pinned machine;
    std::size_t registered = 0;
    for (std::size_t count = 0; count <= 8; ++count) {
        for (std::size_t failing = 0; failing < count; ++failing) {
            CAPTURE(count, failing);
            const ScopedVariable fail{
                "RONDO_STUB_FAIL",
                "cudaHostRegister:" + std::to_string(registered + failing + 1) + ":712"};
            machine.forget_calls();
            const auto server = Server::create(spec_with(count), machine.options());
            registered += failing + 1;
            REQUIRE_FALSE(server.has_value());
            const auto* refused = server.error().as<Registration>();
            REQUIRE(refused != nullptr);
            CHECK(refused->symbol == "cudaErrorHostMemoryAlreadyRegistered");
            CHECK(refused->code == 712);
            CHECK(refused->region == failing);
            CHECK(refused->array == "a" + std::to_string(failing));
            CHECK(refused->bytes == 8192);
            CHECK(refused->call == "cudaHostRegister");
            CHECK(refused->library == machine.library());
            CHECK(machine.locked().empty());
            const auto calls = machine.calls();
            CHECK(calls.back().function == "cudaGetLastError");
            CHECK(calls.back()["code"] == "712");
        }
        machine.forget_calls();
        {
            const auto server = machine.server(spec_with(count));  // after all those failures
            CHECK(machine.locked().size() == count);
        }
        CHECK(machine.locked().empty());
        registered += count;
    }
}

TEST_CASE("pinned server: a failed registration is explained, with device and remedy") {
    const Pinned machine;
    const ScopedVariable fail{"RONDO_STUB_FAIL", "cudaHostRegister:1:801"};
    const auto server = Server::create(spec_with(1), machine.options());
    REQUIRE_FALSE(server.has_value());
    CHECK(
        server.error().message() ==
        "Every region of the ring should be page-locked, but the runtime refused region 0 (array "
        "\"a0\", 8.0 KiB (8192 bytes)) with cudaErrorNotSupported (801) (cudaHostRegister of " +
            machine.library() +
            ", device 0: the first: no device has an active context yet). What had been registered "
            "before it has been undone. This device or system cannot page-lock existing memory "
            "(some integrated GPUs, vGPU profiles and confidential guests): switch "
            "pin_host_memory off.");
}

TEST_CASE("pinned server: memory that registers but cannot be verified is no pinned memory") {
    const Pinned machine;
    const ScopedVariable fail{"RONDO_STUB_FAIL", "cudaHostGetFlags:4:1"};
    const auto server = Server::create(spec_with(3), machine.options());
    REQUIRE_FALSE(server.has_value());
    const auto* refused = server.error().as<Registration>();
    REQUIRE(refused != nullptr);
    CHECK(refused->call == "cudaHostGetFlags");
    CHECK(refused->region == 1);
    CHECK(machine.locked().empty());
}

TEST_CASE("pinned server: a device that cannot be initialised is an error of its own") {
    const Pinned machine;
    for (const char* const call : {"cudaSetDevice", "cudaFree"}) {
        const ScopedVariable fail{"RONDO_STUB_FAIL", std::string{call} + ":0:2"};
        const auto server = Server::create(spec_with(1), machine.options());
        REQUIRE_FALSE(server.has_value());
        const auto* refused = server.error().as<Registration>();
        REQUIRE(refused != nullptr);
        CHECK(refused->bytes == 0);
        CHECK_THAT(refused->call, contains(call));
        CHECK(machine.calls().back().function == "cudaGetLastError");
        CHECK(machine.calls("cudaHostRegister").empty());
    }
}

TEST_CASE("pinned server: the chosen device is adopted, one that does not exist is refused") {
    const Pinned machine;
    const ScopedVariable devices{"RONDO_STUB_DEVICES", "3"};
    auto options = machine.options();
    options.pin_device = 2;
    CHECK(Server::create(spec_with(2), options).has_value());
    for (const auto& call : machine.calls("cudaHostRegister")) CHECK(call["device"] == "2");
    for (const auto& call : machine.calls("cudaHostUnregister")) CHECK(call["device"] == "2");
    REQUIRE(machine.calls("context").size() == 1);
    CHECK(machine.calls("context")[0]["device"] == "2");

    for (const int wrong : {3, -1}) {
        options.pin_device = wrong;
        const auto server = Server::create(spec_with(1), options);
        REQUIRE_FALSE(server.has_value());
        REQUIRE(server.error().as<InvalidOptions>() != nullptr);
        CHECK(server.error().as<InvalidOptions>()->field == "pin_device");
        CHECK(server.error().as<InvalidOptions>()->value == std::to_string(wrong));
    }
}

TEST_CASE("pinned server: two in a process, and one after the other") {
    const Pinned machine;
    {
        const auto first = machine.server(spec_with(2));
        auto second = std::optional{machine.server(spec_with(3))};
        CHECK(machine.locked().size() == 5);
        second.reset();
        CHECK(machine.locked().size() == 2);
        second = machine.server(spec_with(1));
        CHECK(machine.locked().size() == 3);
    }
    CHECK(machine.locked().empty());
}

TEST_CASE("pinned server: memory stays locked while any batch lives, whoever drops the last") {
    const Pinned machine;
    const ScopedVariable devices{"RONDO_STUB_DEVICES", "2"};
    auto options = machine.options();
    options.pin_device = 1;
    auto server = Server::create(spec_with(2), options);
    REQUIRE(server.has_value());
    auto batch = std::optional{next_batch(*server)};
    std::thread{[gone = std::move(*server)]() mutable {
        const auto here = std::move(gone);
    }}.join();
    CHECK(machine.locked().size() == 2);
    CHECK(batch->array<std::uint8_t>("a0")[0] == 0);

    machine.forget_calls();
    std::thread{[&batch] { batch.reset(); }}.join();
    const auto undone = machine.calls("cudaHostUnregister");
    REQUIRE(undone.size() == 2);
    for (const auto& call : undone) {
        CHECK(call["device"] == "1");
        CHECK(call["mapped"] == "yes");
    }
    CHECK(machine.calls("context").empty());
}

TEST_CASE("pinned server: options that cannot be are refused before CUDA is asked") {
    const Pinned machine;
    auto options = machine.options();
    options.batch_size = 0;
    auto server = Server::create(spec_with(1), options);
    REQUIRE_FALSE(server.has_value());
    CHECK(server.error().as<InvalidOptions>() != nullptr);

    options.batch_size = std::uint64_t{1} << 50;
    server = Server::create(spec_with(1), options);
    REQUIRE_FALSE(server.has_value());
    CHECK(server.error().as<RingMemory>() != nullptr);
    CHECK(machine.calls().empty());
}

TEST_CASE("pinned server: an override that does not work is an error, whatever else there is") {
    const Pinned machine;
    const ScopedVariable variable{"RONDO_CUDART", machine.library()};
    auto options = machine.options();
    options.cudart = "/no/such/libcudart.so";
    const auto server = Server::create(spec_with(1), options);
    REQUIRE_FALSE(server.has_value());
    const auto* unavailable = server.error().as<RuntimeUnavailable>();
    REQUIRE(unavailable != nullptr);
    CHECK(unavailable->overridden);
    CHECK(unavailable->attempts.size() == 1);

    options.cudart = {};
    CHECK(Server::create(spec_with(1), options).has_value());  // by the variable
}

TEST_CASE("pinned server: wheels in given site directories are found") {
    const StubMachine machine;
    const auto wheel = machine.runtime("site/nvidia/cuda_runtime/lib/libcudart.so.12");
    const ScopedVariable variable{"RONDO_CUDART", ""};
    const std::vector<std::string> sites{machine / "site"};
    const ScopedVariable only_here{"RONDO_STUB_FAIL", ""};
    const auto server = Server::create(
        spec_with(1), {.batch_size = 1, .pin_host_memory = true, .site_directories = sites});
    REQUIRE(server.has_value());
    CHECK(server->options().site_directories.empty());
    CHECK(server->options().cudart.empty());
    CHECK(server->options().pin_host_memory);
}

TEST_CASE("pinned server: its memory is wiped in a forked child, other memory is not") {
    const Pinned machine;
    auto pinned = machine.server(spec_with(1));
    const auto batch = next_batch(pinned);
    CHECK_THAT(mapping_flags(batch.array<std::uint8_t>("a0").data()), contains(" wf "));

    auto plain = Server::create(spec_with(1), {.batch_size = 1});
    REQUIRE(plain.has_value());
    const auto other = next_batch(*plain);
    const auto flags = mapping_flags(other.array<std::uint8_t>("a0").data());
    CHECK(flags.find(" wf ") == flags.npos);
}

TEST_CASE("pinned server: a forked child that uses or destroys it is told, and unlocks nothing") {
    const Pinned machine;
    std::optional<Server> server = machine.server(spec_with(2));
    Sample sample{server->spec()};
    std::ranges::fill(sample.array<std::uint8_t>("a0"), std::uint8_t{7});
    REQUIRE(server->try_insert(sample) == true);
    std::optional<rondo::Batch> batch = **server->try_sample();
    machine.forget_calls();

    const auto in_child = [&] {
        const CapturedLog log;
        if (batch->array<std::uint8_t>("a0")[0] != 0) return 1;  // zeros, not its parent's samples
        const auto inserted = server->try_insert(sample);
        if (inserted || inserted.error().code != rondo::InsertError::Code::closed) return 2;
        const auto sampled = server->try_sample();
        if (sampled || sampled.error().code != rondo::SampleError::Code::closed) return 3;
        if (server->blocking_insert(sample) || server->blocking_sample()) return 4;
        if (log.lines().size() != 1) return 5;
        server->close();
        server.reset();
        batch.reset();
        return log.lines().size() == 1 ? 0 : 6;
    };
    const pid_t child = ::fork();
    if (child == 0) ::_exit(in_child());
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(machine.calls().empty());
    CHECK(batch->array<std::uint8_t>("a0")[0] == 7);
}

TEST_CASE("pinned server: a batch alone, destroyed in a forked child, unlocks nothing") {
    const Pinned machine;
    std::optional<Server> server = machine.server(spec_with(1));
    std::optional<rondo::Batch> batch = next_batch(*server);
    server.reset();
    const pid_t child = ::fork();
    if (child == 0) {
        const CapturedLog log;
        batch.reset();
        ::_exit(log.lines().size() == 1 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(machine.calls("cudaHostUnregister").empty());
}

TEST_CASE("pinned server: the driver serves where there is no runtime") {
    const StubMachine machine;
    const std::string library = machine.driver();
    {
        const auto server = Server::create(
            spec_with(2), {.batch_size = 1, .pin_host_memory = true, .cudart = library});
        REQUIRE(server.has_value());
        CHECK(machine.calls("cuMemHostRegister").size() == 2);
        CHECK(machine.calls("cuPointerGetAttribute").size() == 4);
    }
    CHECK(machine.calls("cuMemHostUnregister").size() == 2);
    CHECK(machine.calls().back().function == "cuDevicePrimaryCtxRelease");

    const ScopedVariable fail{"RONDO_STUB_FAIL", "cuMemHostRegister:4:2"};
    machine.forget_calls();
    const auto server =
        Server::create(spec_with(3), {.batch_size = 1, .pin_host_memory = true, .cudart = library});
    REQUIRE_FALSE(server.has_value());
    REQUIRE(server.error().as<Registration>() != nullptr);
    CHECK(server.error().as<Registration>()->symbol == "CUDA_ERROR_OUT_OF_MEMORY");
    CHECK(machine.calls("cuMemHostUnregister").size() == 1);
}
