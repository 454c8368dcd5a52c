// The face protocols of IJB-B and IJB-C between two models: verification (1:1) and identification (1:N).
// Threads: pure functions, one caller at a time each.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/json/message_json.h"
#include "models/encoders/encoder.h"
#include "stats/verification.h"
#include "trainer/data/face_lists.h"

namespace lightcone::cli {

// A probe set searched in one enrolled gallery.
struct FaceSearch {
  std::string gallery;    // "1", "2", "1 and 2"
  bool open_set = false;  // thresholds from the probes that are not enrolled; where all are, from all pairs of
                          // different subjects, as the releases count in both galleries together
  IdentificationFigures figures;
};

struct FaceFigures {
  VerificationFigures verification;
  std::vector<FaceSearch> searches;
};

// `query` embeds the first template of a pair and the probes, `gallery` the second and what is enrolled; each template
// is the mean over its media (PoolTemplates). Rates: FAR 1e-6 .. 1e-1, FPIR 1e-2 and 1e-1. INVALID_ARGUMENT: a
// protocol without a genuine, an impostor or an enrolled probe. The two models must compare.
absl::StatusOr<FaceFigures> MeasureFaces(const Encoder& query, const Encoder& gallery, const FaceLists& lists);

OrderedJson FacesJson(const FaceFigures& figures);
std::string FacesText(const FaceFigures& figures);

}  // namespace lightcone::cli
