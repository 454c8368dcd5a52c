// The engine's own records: decoders never crash, and what they accept encodes to something they accept again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/engine/api/validation_types.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/meta.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/validation/probe_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto collection = DecodeCollection(bytes);
  if (collection.ok() && !DecodeCollection(Encode(*collection)).ok()) abort();
  const auto generation = DecodeGeneration(bytes);
  if (generation.ok() && !DecodeGeneration(Encode(*generation)).ok()) abort();
  const auto progress = DecodeProgress(bytes);
  if (progress.ok() && !DecodeProgress(Encode(*progress)).ok()) abort();
  const auto adapter = DecodeAdapterRecord(bytes);
  if (adapter.ok() && !DecodeAdapterRecord(Encode(*adapter)).ok()) abort();
  const auto backfill = DecodeBackfill(bytes);
  if (backfill.ok() && !DecodeBackfill(Encode(*backfill)).ok()) abort();
  const auto request = DecodeRequest(bytes);
  if (request.ok() && !DecodeRequest(Encode(*request)).ok()) abort();
  const auto audit = DecodeAudit(bytes);
  if (audit.ok() && !DecodeAudit(Encode(*audit)).ok()) abort();
  const auto job = DecodeJob(bytes);
  if (job.ok() && !DecodeJob(Encode(*job)).ok()) abort();
  const auto head = DecodeProbeHead(bytes);
  if (head.ok() && !DecodeProbeHead(EncodeProbeHead(*head)).ok()) abort();
  const auto probes = DecodeProbes(bytes);
  if (probes.ok() && !DecodeProbes(EncodeProbes(*probes)).ok()) abort();
  const auto report = DecodeValidation(bytes);
  if (report.ok() && !DecodeValidation(Encode(*report)).ok()) abort();
  const auto input = DecodeInput(bytes);
  if (input.ok() && !DecodeInput(EncodeInput(*input)).ok()) abort();
  (void)ParseNumber(bytes, "number");
  (void)CheckPayload(bytes, 1 << 20, "payload_json");
  return 0;
}
