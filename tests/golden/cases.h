// One function a kind of golden file: recomputes everything the file expects with this repository's code.
// They throw nlohmann exceptions on a file of another shape; the program turns that into a failure of the file.
#pragma once

#include "tests/golden/checker.h"

namespace lightcone::golden {

void CheckLorentz(const Json& file, Checker& check);          // lorentz_d*: maps, distances, cones; and float32 kernels
void CheckFloat32Geodesic(const Json& file, Checker& check);  // fp32_geodesic_d*
void CheckRescaleClip(const Json& file, Checker& check);      // rescale_clip_d*
void CheckEntailment(const Json& file, Checker& check);       // entail_grad_d*
void CheckRince(const Json& file, Checker& check);            // rince_B*
void CheckLorentzMlr(const Json& file, Checker& check);       // lorentz_mlr_d*
void CheckMixbct(const Json& file, Checker& check);           // mixbct_denoise, mixbct_mix
void CheckBt2(const Json& file, Checker& check);              // bt2_transform
void CheckHypMix(const Json& file, Checker& check);           // hypmix_lmix
void CheckEuclidBaselines(const Json& file, Checker& check);  // euclid_baselines
void CheckRankingMetrics(const Json& file, Checker& check);   // ranking_metrics
void CheckPComPUp(const Json& file, Checker& check);          // p_com_p_up
void CheckServerRanking(const Json& file, Checker& check);    // server_ranking_d*

}  // namespace lightcone::golden
