// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that rondo offers.

#include <rondo/batch.hpp>
#include <rondo/blocking_tcp_client.hpp>
#include <rondo/deadline.hpp>
#include <rondo/dtype.hpp>
#include <rondo/error.hpp>
#include <rondo/log.hpp>
#include <rondo/metrics.hpp>
#include <rondo/pin_error.hpp>
#include <rondo/sample.hpp>
#include <rondo/server.hpp>
#include <rondo/spec.hpp>
#include <rondo/tcp_client.hpp>
#include <rondo/tcp_options.hpp>
#include <rondo/trajectory_accumulator.hpp>
#include <rondo/transport.hpp>
#include <rondo/version.hpp>
