// Keys, refusals, TLS material and the audit file.
#include "server/metrics/families.h"

namespace lightcone::server {
namespace {

void AddReloads(const std::string& name, const std::string& help, uint64_t read, uint64_t failed, FamilyList* out) {
  out->Counter(name, help, read, {{"result", "ok"}});
  out->Counter(name, help, failed, {{"result", "failed"}});
}

// Of the limits that the key has, and of those that refused calls before they were taken away.
void AddLimits(const auth::LimitedKey& key, FamilyList* out) {
  for (size_t i = 0; i < auth::kLimitRows.size(); ++i) {
    const auth::LimitRow& row = auth::kLimitRows[i];
    if (key.figures.limits.*row.value == 0 && key.figures.refused_total[i] == 0) continue;
    out->Counter("lightcone_auth_limited_total", "Calls and batches that a limit of their key refused.",
                 key.figures.refused_total[i], {{"key", key.name}, {"limit", std::string(row.name)}});
  }
}

}  // namespace

void AddTrustFamilies(const TrustFigures& figures, FamilyList* out) {
  if (figures.keys.has_value()) {
    out->Gauge("lightcone_auth_keys", "Lines of the file of keys that are valid.", figures.keys->keys);
    for (size_t i = 0; i < auth::kRefusalNames.size(); ++i) {
      out->Counter("lightcone_auth_refused_total",
                   "Calls that were refused for their key: missing, unknown or expired, or without the scope or the "
                   "collection.",
                   figures.keys->refused_total[i], {{"reason", std::string(auth::kRefusalNames[i])}});
    }
    for (const auth::LimitedKey& key : figures.keys->limited) AddLimits(key, out);
    AddReloads("lightcone_auth_reloads_total", "Times that keys were read again; a failure leaves them as they were.",
               figures.keys->reloads_total, figures.keys->failed_reloads_total, out);
  }
  if (figures.writes.has_value()) {
    for (const auth::Limit limit : {auth::Limit::kRows, auth::Limit::kBytes}) {
      const auto i = static_cast<size_t>(limit);
      out->Counter("lightcone_writes_limited_total",
                   "Upserts that limits.write_rows_per_second or limits.write_bytes_per_second refused.",
                   figures.writes->refused_total[i], {{"limit", "write_" + std::string(auth::kLimitRows[i].name)}});
    }
  }
  if (figures.certificates.has_value()) {
    out->Gauge("lightcone_tls_certificate_not_after_seconds", "When the certificate ends, in seconds since 1970.",
               absl::ToDoubleSeconds(figures.certificates->not_after - absl::UnixEpoch()));
    AddReloads("lightcone_tls_reloads_total", "Times that TLS material was read again; a failure leaves it as it was.",
               figures.certificates->reloads_total, figures.certificates->failed_reloads_total, out);
  }
  if (figures.audit.has_value()) {
    out->Counter("lightcone_audit_records_total", "Calls that were recorded in the audit file, or should have been.",
                 figures.audit->records_total);
    out->Counter("lightcone_audit_failures_total", "Records of the audit file that could not be written.",
                 figures.audit->failures_total);
  }
}

}  // namespace lightcone::server
