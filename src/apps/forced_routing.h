// SPDX-License-Identifier: Apache-2.0
// A backend whose router draws experts from a Zipf distribution instead of computing them, for measuring how speed
// depends on routing. Everything else is the backend that it wraps.
// Invariant: the experts of a (call, row) depend on nothing but the seed, so runs can be compared.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"

namespace colibri {

/// The expert of id e has weight (e + 1)^-exponent.
std::unique_ptr<Backend> make_zipf_backend(Backend& inner, double exponent);

}  // namespace colibri
