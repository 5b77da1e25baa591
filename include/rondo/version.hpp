// SPDX-License-Identifier: Apache-2.0
#pragma once

#define RONDO_VERSION_MAJOR 0
#define RONDO_VERSION_MINOR 1
#define RONDO_VERSION_PATCH 0
#define RONDO_VERSION "0.1.0"
