// The version of this build. Threads: constants.
#pragma once

namespace lightcone {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace lightcone
