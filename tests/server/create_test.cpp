// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/stores.hpp"
#include <rondo/server.hpp>

#include <filesystem>
#include <string>
#include <utility>

using rondo::InvalidOptions;
using rondo::RingMemory;
using rondo::RuntimeUnavailable;
using rondo::Server;
using rondo::ServerOptions;
using rondo::test::contains;
using rondo::test::id_spec;

TEST_CASE("Server: created with its defaults, it is empty and open") {
    const auto server = Server::create(id_spec());
    REQUIRE(server.has_value());
    CHECK(server->spec() == id_spec());
    CHECK(server->options().batch_size == 32);
    CHECK(server->options().num_buffers == 3);
    CHECK_FALSE(server->options().pin_host_memory);
    CHECK(server->metrics().samples_inserted_total == 0);
}

TEST_CASE("Server: an option that breaks its rule is named, with its value") {
    struct Case {
        ServerOptions options;
        const char* field;
        const char* value;
    };
    const Case cases[] = {{{.batch_size = 0}, "batch_size", "0"},
                          {{.num_buffers = 0}, "num_buffers", "0"},
                          {{.io_threads = 65}, "io_threads", "65"}};
    for (const auto& [options, field, value] : cases) {
        CAPTURE(field);
        const auto server = Server::create(id_spec(), options);
        REQUIRE_FALSE(server.has_value());
        const auto* const reason = server.error().as<InvalidOptions>();
        REQUIRE(reason != nullptr);
        CHECK(reason->field == field);
        CHECK(reason->value == value);
        CHECK_THAT(server.error().message(), contains(field) && contains("must be"));
    }
    CHECK(Server::create(id_spec(), {.io_threads = 64}).has_value());
}

TEST_CASE("Server: a ring that can never fit is refused before any memory is touched") {
    const auto server = Server::create(id_spec(), {.batch_size = std::uint64_t{1} << 50});
    REQUIRE_FALSE(server.has_value());
    const auto* const reason = server.error().as<RingMemory>();
    REQUIRE(reason != nullptr);
    CHECK_FALSE(reason->can_ever_fit);
    CHECK(reason->wanted >= (std::uint64_t{1} << 53) * 3);
    CHECK_FALSE(reason->limited_by.empty());

    const auto beyond = Server::create(id_spec(), {.batch_size = ~std::uint64_t{0}});
    REQUIRE_FALSE(beyond.has_value());
    REQUIRE(beyond.error().as<RingMemory>() != nullptr);
    CHECK(beyond.error().as<RingMemory>()->wanted == ~std::uint64_t{0});
}

TEST_CASE("Server: without a GPU, pinning is an error that says what was tried") {
    if (std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg")) {
        RONDO_SKIP("this machine has a GPU");
    }
    const auto server = Server::create(id_spec(), {.pin_host_memory = true});
    REQUIRE_FALSE(server.has_value());
    const auto* const reason = server.error().as<RuntimeUnavailable>();
    REQUIRE(reason != nullptr);
    CHECK_FALSE(reason->attempts.empty());
    CHECK_THAT(server.error().message(), contains("pin_host_memory"));
}

TEST_CASE("Server: options are checked before the runtime is looked for") {
    const auto server = Server::create(id_spec(), {.batch_size = 0, .pin_host_memory = true});
    REQUIRE_FALSE(server.has_value());
    CHECK(server.error().as<InvalidOptions>() != nullptr);
}
