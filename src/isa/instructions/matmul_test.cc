// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void nc_matmul(Draft& d) {
  d.operands = {d.psum(kF32, {64, 256}), d.sbuf(kBf16, {128, 64}), d.sbuf(kBf16, {128, 256})};
  d.attributes = {word(-1), word(0), word(0), word(0), word(0), word(0), word(0), word(0), word(0)};
}

void nc_matmul_mx(Draft& d) {
  d.operands = {d.psum(kF32, {64, 256}), d.sbuf(DType::kFloat8E4M3FnX4, {128, 64}),
                d.sbuf(DType::kFloat8E4M3FnX4, {128, 256}), d.sbuf(DType::kUint8, {128, 64}),
                d.sbuf(DType::kUint8, {128, 256})};
  d.attributes = {word(-1), word(0), word(0), word(0), word(0)};
}

void nc_matmul_sparse(Draft& d) {
  d.operands = {d.psum(kF32, {64, 256}), d.sbuf(kBf16, {128, 64}), d.sbuf(kBf16, {128, 4, 256}),
                d.sbuf(kU16, {128, 16})};
  d.attributes = {word(-1), word(416)};
}

}  // namespace drafts

std::vector<Case> matmul_cases() {
  return {
      {"nc_matmul.C1", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.shape(kMoving, {64, 256});
       }},
      {"nc_matmul.C2", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.set(kATileRows, 64);
         d.set(kATileColumns, 128);
       }},
      {"nc_matmul.C3", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.shape(kStationary, {128, 129});
         d.shape(kDst, {128, 256});
       }},
      {"nc_matmul.C4", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.shape(kMoving, {128, 513});
         d.shape(kDst, {64, 513});
       }},
      {"nc_matmul.C5", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.shape(kDst, {65, 256});
       }},
      {"nc_matmul.C6", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.dtype(kStationary, DType::kInt8);
       }},
      {"nc_matmul.C7", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.set(kATileRows, 96);
         d.set(kATileColumns, 128);
       }},
      {"nc_matmul.C8", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.generation = Generation::kV2;
         d.set(kAPerfMode, 1);
       }},
      {"nc_matmul.C9", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.set(kAPerfMode, 1);
       }},
      {"nc_matmul.C10", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.dtype(kStationary, DType::kFloat8E4M3);
         d.dtype(kMoving, DType::kFloat8E5M2);
         d.set(kAPerfMode, 1);
       }},
      {"nc_matmul.C11", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.dtype(kStationary, DType::kFloat8E4M3);
         d.dtype(kMoving, DType::kFloat8E5M2);
         d.shape(kStationary, {128, 2, 32});
         d.shape(kMoving, {128, 2, 128});
         d.shape(kDst, {32, 128});
         d.set(kAPerfMode, 1);
         d.set(kATileRows, 128);
         d.set(kATileColumns, 64);
       }},
      {"nc_matmul.C12", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.dtype(kMoving, DType::kFloat32);
       }},
      {"nc_matmul.C13", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.generation = Generation::kV4;
         d.dtype(kStationary, DType::kFloat8E4M3);
         d.dtype(kMoving, DType::kFloat8E4M3Fn);
       }},
      {"nc_matmul.C14", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.dtype(kDst, DType::kBFloat16);
       }},
      {"nc_matmul.C15", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.set(kAAccumulate, 2);
       }},
      {"nc_matmul.C16", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.generation = Generation::kV4;
         d.indirect(kMoving, IndirectKind::kTensor);
         d.shape(kStationary, {64, 64});
         d.shape(kMoving, {64, 256});
         d.indirect(kMoving, IndirectKind::kTensor);
         d.set(kATileRows, 64);
         d.set(kATileColumns, 128);
         d.set(kATileRow, 64);
       }},
      {"nc_matmul.C17", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.generation = Generation::kV4;
         d.indirect(kMoving, IndirectKind::kTensor);
         d.set(kAIsTranspose, 1);
       }},
      {"nc_matmul.C18", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.generation = Generation::kV4;
         d.dtype(kStationary, DType::kFloat32);
         d.dtype(kMoving, DType::kFloat32);
         d.indirect(kMoving, IndirectKind::kTensor);
       }},
      {"nc_matmul.C19", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.shape(kDst, {64, 1024});
         d.walk(kDst, {{1024, 64}, {1, 256}}, 300);
       }},
      {"nc_matmul.C20", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         in_tile(d, 32, 128, 64, 0);
         d.shape(kStationary, {128, 64});
         d.walk(kStationary, {{64, 32}, {1, 64}});
         d.shape(kMoving, {128, 256});
         d.walk(kMoving, {{256, 32}, {1, 256}});
       }},
      {"nc_matmul.C21", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         in_tile(d, 128, 64, 0, 64);
         d.shape(kDst, {128, 256});
         d.walk(kDst, {{256, 64}, {1, 256}});
       }},
      {"nc_matmul.C22", Opcode::kNcMatmul,
       [](Draft& d) {
         using namespace slot::nc_matmul;
         d.walk(kStationary, {{64, 64}, {1, 64}});
         d.walk(kMoving, {{256, 64}, {1, 256}}, 64 * 256);
       }},
      {"nc_matmul_mx.C1", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.shape(kMoving, {64, 256});
       }},
      {"nc_matmul_mx.C2", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.shape(kMoving, {48, 256});
         d.shape(kStationary, {48, 64});
       }},
      {"nc_matmul_mx.C3", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.shape(kStationary, {128, 63});
       }},
      {"nc_matmul_mx.C4", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.shape(kMoving, {128, 4097});
       }},
      {"nc_matmul_mx.C5", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.shape(kDst, {64, 255});
       }},
      {"nc_matmul_mx.C6", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.dtype(kMoving, DType::kUint32);
       }},
      {"nc_matmul_mx.C7", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.dtype(kDst, DType::kFloat16);
       }},
      {"nc_matmul_mx.C8", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.dtype(kMovingScale, DType::kFloat32);
       }},
      {"nc_matmul_mx.C9", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.set(kATileRow, 64);
       }},
      {"nc_matmul_mx.C10", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.set(kATileRows, 128);
         d.set(kATileColumns, 64);
       }},
      {"nc_matmul_mx.C11", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.set(kATileRows, 64);
         d.set(kATileColumns, 128);
       }},
      {"nc_matmul_mx.C12", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.set(kATileRows, 32);
         d.set(kATileColumns, 128);
         d.set(kATileRow, 96);
         d.shape(kStationary, {128, 64});
         d.shape(kMoving, {128, 256});
         d.walk(kStationary, {{64, 32}, {1, 64}});
         d.walk(kMoving, {{256, 32}, {1, 256}});
       }},
      {"nc_matmul_mx.C13", Opcode::kNcMatmulMx,
       [](Draft& d) {
         using namespace slot::nc_matmul_mx;
         d.walk(kStationary, {{64, 64}, {1, 64}});
         d.walk(kMoving, {{256, 64}, {1, 256}}, 64 * 256);
       }},
      {"nc_matmul_sparse.C1", Opcode::kNcMatmulSparse,
       [](Draft& d) {
         using namespace slot::nc_matmul_sparse;
         d.set(kAPattern, 304);
       }},
      {"nc_matmul_sparse.C2", Opcode::kNcMatmulSparse,
       [](Draft& d) {
         using namespace slot::nc_matmul_sparse;
         d.shape(kMoving, {64, 4, 256});
       }},
      {"nc_matmul_sparse.C3", Opcode::kNcMatmulSparse,
       [](Draft& d) {
         using namespace slot::nc_matmul_sparse;
         d.shape(kStationary, {128, 129});
       }},
      {"nc_matmul_sparse.C4", Opcode::kNcMatmulSparse,
       [](Draft& d) {
         using namespace slot::nc_matmul_sparse;
         d.shape(kDst, {64, 1024});
         d.walk(kDst, {{1024, 64}, {1, 256}}, 300);
       }},
      {"nc_matmul_sparse.C5", Opcode::kNcMatmulSparse,
       [](Draft& d) {
         using namespace slot::nc_matmul_sparse;
         d.walk(kStationary, {{64, 64}, {1, 64}});
         d.walk(kMoving, {{1024, 64}, {256, 4}, {1, 256}}, 64 * 1024);
       }},
  };
}

}  // namespace opentrn::isa
