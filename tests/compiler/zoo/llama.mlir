module @jit_function attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<500x64xf32>, %arg1: tensor<64xf32>, %arg2: tensor<64x64xf32>, %arg3: tensor<64x32xf32>, %arg4: tensor<64x32xf32>, %arg5: tensor<64x64xf32>, %arg6: tensor<64xf32>, %arg7: tensor<64x176xf32>, %arg8: tensor<64x176xf32>, %arg9: tensor<176x64xf32>, %arg10: tensor<64xf32>, %arg11: tensor<64x64xf32>, %arg12: tensor<64x32xf32>, %arg13: tensor<64x32xf32>, %arg14: tensor<64x64xf32>, %arg15: tensor<64xf32>, %arg16: tensor<64x176xf32>, %arg17: tensor<64x176xf32>, %arg18: tensor<176x64xf32>, %arg19: tensor<64xf32>, %arg20: tensor<64x500xf32>, %arg21: tensor<16xi32>) -> (tensor<16x500xf32> {jax.result_info = "result"}) {
    %0 = call @_take(%arg0, %arg21) : (tensor<500x64xf32>, tensor<16xi32>) -> tensor<16x64xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<16x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<16x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %7 = stablehlo.add %5, %6 : tensor<16x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<16x1xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %10 = stablehlo.multiply %0, %9 : tensor<16x64xf32>
    %11 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %13 = stablehlo.multiply %10, %12 : tensor<16x64xf32>
    %14 = stablehlo.dot_general %13, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %15 = stablehlo.reshape %14 : (tensor<16x64xf32>) -> tensor<16x4x16xf32>
    %16 = stablehlo.iota dim = 0 : tensor<8xf32>
    %17 = stablehlo.negate %16 : tensor<8xf32>
    %cst_2 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %19 = stablehlo.divide %17, %18 : tensor<8xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %21 = stablehlo.power %20, %19 : tensor<8xf32>
    %22 = stablehlo.iota dim = 0 : tensor<16xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %24 = stablehlo.broadcast_in_dim %21, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %25 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x8xf32>
    %26 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %27 = stablehlo.multiply %25, %26 : tensor<16x8xf32>
    %28 = stablehlo.cosine %27 : tensor<16x8xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x1x8xf32>
    %30 = stablehlo.sine %27 : tensor<16x8xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x1x8xf32>
    %32 = stablehlo.slice %15 [0:16, 0:4, 0:8] : (tensor<16x4x16xf32>) -> tensor<16x4x8xf32>
    %33 = stablehlo.slice %15 [0:16, 0:4, 8:16] : (tensor<16x4x16xf32>) -> tensor<16x4x8xf32>
    %34 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x4x8xf32>
    %35 = stablehlo.multiply %32, %34 : tensor<16x4x8xf32>
    %36 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x4x8xf32>
    %37 = stablehlo.multiply %33, %36 : tensor<16x4x8xf32>
    %38 = stablehlo.subtract %35, %37 : tensor<16x4x8xf32>
    %39 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x4x8xf32>
    %40 = stablehlo.multiply %33, %39 : tensor<16x4x8xf32>
    %41 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x4x8xf32>
    %42 = stablehlo.multiply %32, %41 : tensor<16x4x8xf32>
    %43 = stablehlo.add %40, %42 : tensor<16x4x8xf32>
    %44 = stablehlo.concatenate %38, %43, dim = 2 : (tensor<16x4x8xf32>, tensor<16x4x8xf32>) -> tensor<16x4x16xf32>
    %45 = stablehlo.reshape %44 : (tensor<16x4x16xf32>) -> tensor<16x2x2x16xf32>
    %46 = stablehlo.dot_general %13, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %47 = stablehlo.reshape %46 : (tensor<16x32xf32>) -> tensor<16x2x16xf32>
    %48 = stablehlo.iota dim = 0 : tensor<8xf32>
    %49 = stablehlo.negate %48 : tensor<8xf32>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %51 = stablehlo.divide %49, %50 : tensor<8xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %53 = stablehlo.power %52, %51 : tensor<8xf32>
    %54 = stablehlo.iota dim = 0 : tensor<16xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %56 = stablehlo.broadcast_in_dim %53, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %57 = stablehlo.broadcast_in_dim %55, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x8xf32>
    %58 = stablehlo.broadcast_in_dim %56, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %59 = stablehlo.multiply %57, %58 : tensor<16x8xf32>
    %60 = stablehlo.cosine %59 : tensor<16x8xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x1x8xf32>
    %62 = stablehlo.sine %59 : tensor<16x8xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x1x8xf32>
    %64 = stablehlo.slice %47 [0:16, 0:2, 0:8] : (tensor<16x2x16xf32>) -> tensor<16x2x8xf32>
    %65 = stablehlo.slice %47 [0:16, 0:2, 8:16] : (tensor<16x2x16xf32>) -> tensor<16x2x8xf32>
    %66 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x2x8xf32>
    %67 = stablehlo.multiply %64, %66 : tensor<16x2x8xf32>
    %68 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x2x8xf32>
    %69 = stablehlo.multiply %65, %68 : tensor<16x2x8xf32>
    %70 = stablehlo.subtract %67, %69 : tensor<16x2x8xf32>
    %71 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x2x8xf32>
    %72 = stablehlo.multiply %65, %71 : tensor<16x2x8xf32>
    %73 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x2x8xf32>
    %74 = stablehlo.multiply %64, %73 : tensor<16x2x8xf32>
    %75 = stablehlo.add %72, %74 : tensor<16x2x8xf32>
    %76 = stablehlo.concatenate %70, %75, dim = 2 : (tensor<16x2x8xf32>, tensor<16x2x8xf32>) -> tensor<16x2x16xf32>
    %77 = stablehlo.dot_general %13, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %78 = stablehlo.reshape %77 : (tensor<16x32xf32>) -> tensor<16x2x16xf32>
    %79 = stablehlo.dot_general %76, %45, batching_dims = [1] x [1], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<16x2x16xf32>, tensor<16x2x2x16xf32>) -> tensor<2x16x16x2xf32>
    %80 = stablehlo.transpose %79, dims = [0, 3, 2, 1] : (tensor<2x16x16x2xf32>) -> tensor<2x2x16x16xf32>
    %cst_6 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x2x16x16xf32>
    %82 = stablehlo.multiply %80, %81 : tensor<2x2x16x16xf32>
    %83 = stablehlo.iota dim = 0 : tensor<16xi32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %85 = stablehlo.iota dim = 0 : tensor<16xi32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [1] : (tensor<16xi32>) -> tensor<1x16xi32>
    %87 = stablehlo.broadcast_in_dim %84, dims = [0, 1] : (tensor<16x1xi32>) -> tensor<16x16xi32>
    %88 = stablehlo.broadcast_in_dim %86, dims = [0, 1] : (tensor<1x16xi32>) -> tensor<16x16xi32>
    %89 = stablehlo.compare GE, %87, %88, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
    %cst_7 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %90 = call @_where_0(%89, %82, %cst_7) : (tensor<16x16xi1>, tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16x16xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %91 = stablehlo.reduce(%90 init: %cst_8) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x2x16xf32>
    %93 = stablehlo.maximum %92, %91 : tensor<2x2x16xf32>
    %94 = stablehlo.broadcast_in_dim %93, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x1xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2, 3] : (tensor<2x2x16x1xf32>) -> tensor<2x2x16x16xf32>
    %96 = stablehlo.subtract %90, %95 : tensor<2x2x16x16xf32>
    %97 = stablehlo.exponential %96 : tensor<2x2x16x16xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %98 = stablehlo.reduce(%97 init: %cst_10) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x1xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2, 3] : (tensor<2x2x16x1xf32>) -> tensor<2x2x16x16xf32>
    %101 = stablehlo.divide %97, %100 : tensor<2x2x16x16xf32>
    %102 = stablehlo.dot_general %78, %101, batching_dims = [1] x [0], contracting_dims = [0] x [3], precision = [DEFAULT, DEFAULT] : (tensor<16x2x16xf32>, tensor<2x2x16x16xf32>) -> tensor<2x16x2x16xf32>
    %103 = stablehlo.transpose %102, dims = [3, 0, 2, 1] : (tensor<2x16x2x16xf32>) -> tensor<16x2x2x16xf32>
    %104 = stablehlo.reshape %103 : (tensor<16x2x2x16xf32>) -> tensor<16x64xf32>
    %105 = stablehlo.dot_general %104, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %106 = stablehlo.add %0, %105 : tensor<16x64xf32>
    %107 = stablehlo.multiply %106, %106 : tensor<16x64xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %108 = stablehlo.reduce(%107 init: %cst_11) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_12 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %111 = stablehlo.divide %109, %110 : tensor<16x1xf32>
    %cst_13 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %113 = stablehlo.add %111, %112 : tensor<16x1xf32>
    %114 = stablehlo.rsqrt %113 : tensor<16x1xf32>
    %115 = stablehlo.broadcast_in_dim %114, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %116 = stablehlo.multiply %106, %115 : tensor<16x64xf32>
    %117 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %119 = stablehlo.multiply %116, %118 : tensor<16x64xf32>
    %120 = stablehlo.dot_general %119, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x176xf32>) -> tensor<16x176xf32>
    %121 = call @silu(%120) : (tensor<16x176xf32>) -> tensor<16x176xf32>
    %122 = stablehlo.dot_general %119, %arg8, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x176xf32>) -> tensor<16x176xf32>
    %123 = stablehlo.multiply %121, %122 : tensor<16x176xf32>
    %124 = stablehlo.dot_general %123, %arg9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x176xf32>, tensor<176x64xf32>) -> tensor<16x64xf32>
    %125 = stablehlo.add %106, %124 : tensor<16x64xf32>
    %126 = stablehlo.multiply %125, %125 : tensor<16x64xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %127 = stablehlo.reduce(%126 init: %cst_14) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_15 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %129 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %130 = stablehlo.divide %128, %129 : tensor<16x1xf32>
    %cst_16 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %131 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %132 = stablehlo.add %130, %131 : tensor<16x1xf32>
    %133 = stablehlo.rsqrt %132 : tensor<16x1xf32>
    %134 = stablehlo.broadcast_in_dim %133, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %135 = stablehlo.multiply %125, %134 : tensor<16x64xf32>
    %136 = stablehlo.broadcast_in_dim %arg10, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %138 = stablehlo.multiply %135, %137 : tensor<16x64xf32>
    %139 = stablehlo.dot_general %138, %arg11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %140 = stablehlo.reshape %139 : (tensor<16x64xf32>) -> tensor<16x4x16xf32>
    %141 = stablehlo.iota dim = 0 : tensor<8xf32>
    %142 = stablehlo.negate %141 : tensor<8xf32>
    %cst_17 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %143 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %144 = stablehlo.divide %142, %143 : tensor<8xf32>
    %cst_18 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %146 = stablehlo.power %145, %144 : tensor<8xf32>
    %147 = stablehlo.iota dim = 0 : tensor<16xf32>
    %148 = stablehlo.broadcast_in_dim %147, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %149 = stablehlo.broadcast_in_dim %146, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %150 = stablehlo.broadcast_in_dim %148, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x8xf32>
    %151 = stablehlo.broadcast_in_dim %149, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %152 = stablehlo.multiply %150, %151 : tensor<16x8xf32>
    %153 = stablehlo.cosine %152 : tensor<16x8xf32>
    %154 = stablehlo.broadcast_in_dim %153, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x1x8xf32>
    %155 = stablehlo.sine %152 : tensor<16x8xf32>
    %156 = stablehlo.broadcast_in_dim %155, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x1x8xf32>
    %157 = stablehlo.slice %140 [0:16, 0:4, 0:8] : (tensor<16x4x16xf32>) -> tensor<16x4x8xf32>
    %158 = stablehlo.slice %140 [0:16, 0:4, 8:16] : (tensor<16x4x16xf32>) -> tensor<16x4x8xf32>
    %159 = stablehlo.broadcast_in_dim %154, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x4x8xf32>
    %160 = stablehlo.multiply %157, %159 : tensor<16x4x8xf32>
    %161 = stablehlo.broadcast_in_dim %156, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x4x8xf32>
    %162 = stablehlo.multiply %158, %161 : tensor<16x4x8xf32>
    %163 = stablehlo.subtract %160, %162 : tensor<16x4x8xf32>
    %164 = stablehlo.broadcast_in_dim %154, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x4x8xf32>
    %165 = stablehlo.multiply %158, %164 : tensor<16x4x8xf32>
    %166 = stablehlo.broadcast_in_dim %156, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x4x8xf32>
    %167 = stablehlo.multiply %157, %166 : tensor<16x4x8xf32>
    %168 = stablehlo.add %165, %167 : tensor<16x4x8xf32>
    %169 = stablehlo.concatenate %163, %168, dim = 2 : (tensor<16x4x8xf32>, tensor<16x4x8xf32>) -> tensor<16x4x16xf32>
    %170 = stablehlo.reshape %169 : (tensor<16x4x16xf32>) -> tensor<16x2x2x16xf32>
    %171 = stablehlo.dot_general %138, %arg12, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %172 = stablehlo.reshape %171 : (tensor<16x32xf32>) -> tensor<16x2x16xf32>
    %173 = stablehlo.iota dim = 0 : tensor<8xf32>
    %174 = stablehlo.negate %173 : tensor<8xf32>
    %cst_19 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %175 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %176 = stablehlo.divide %174, %175 : tensor<8xf32>
    %cst_20 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %177 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %178 = stablehlo.power %177, %176 : tensor<8xf32>
    %179 = stablehlo.iota dim = 0 : tensor<16xf32>
    %180 = stablehlo.broadcast_in_dim %179, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %181 = stablehlo.broadcast_in_dim %178, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %182 = stablehlo.broadcast_in_dim %180, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x8xf32>
    %183 = stablehlo.broadcast_in_dim %181, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<16x8xf32>
    %184 = stablehlo.multiply %182, %183 : tensor<16x8xf32>
    %185 = stablehlo.cosine %184 : tensor<16x8xf32>
    %186 = stablehlo.broadcast_in_dim %185, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x1x8xf32>
    %187 = stablehlo.sine %184 : tensor<16x8xf32>
    %188 = stablehlo.broadcast_in_dim %187, dims = [0, 2] : (tensor<16x8xf32>) -> tensor<16x1x8xf32>
    %189 = stablehlo.slice %172 [0:16, 0:2, 0:8] : (tensor<16x2x16xf32>) -> tensor<16x2x8xf32>
    %190 = stablehlo.slice %172 [0:16, 0:2, 8:16] : (tensor<16x2x16xf32>) -> tensor<16x2x8xf32>
    %191 = stablehlo.broadcast_in_dim %186, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x2x8xf32>
    %192 = stablehlo.multiply %189, %191 : tensor<16x2x8xf32>
    %193 = stablehlo.broadcast_in_dim %188, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x2x8xf32>
    %194 = stablehlo.multiply %190, %193 : tensor<16x2x8xf32>
    %195 = stablehlo.subtract %192, %194 : tensor<16x2x8xf32>
    %196 = stablehlo.broadcast_in_dim %186, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x2x8xf32>
    %197 = stablehlo.multiply %190, %196 : tensor<16x2x8xf32>
    %198 = stablehlo.broadcast_in_dim %188, dims = [0, 1, 2] : (tensor<16x1x8xf32>) -> tensor<16x2x8xf32>
    %199 = stablehlo.multiply %189, %198 : tensor<16x2x8xf32>
    %200 = stablehlo.add %197, %199 : tensor<16x2x8xf32>
    %201 = stablehlo.concatenate %195, %200, dim = 2 : (tensor<16x2x8xf32>, tensor<16x2x8xf32>) -> tensor<16x2x16xf32>
    %202 = stablehlo.dot_general %138, %arg13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %203 = stablehlo.reshape %202 : (tensor<16x32xf32>) -> tensor<16x2x16xf32>
    %204 = stablehlo.dot_general %201, %170, batching_dims = [1] x [1], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<16x2x16xf32>, tensor<16x2x2x16xf32>) -> tensor<2x16x16x2xf32>
    %205 = stablehlo.transpose %204, dims = [0, 3, 2, 1] : (tensor<2x16x16x2xf32>) -> tensor<2x2x16x16xf32>
    %cst_21 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %206 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2x2x16x16xf32>
    %207 = stablehlo.multiply %205, %206 : tensor<2x2x16x16xf32>
    %208 = stablehlo.iota dim = 0 : tensor<16xi32>
    %209 = stablehlo.broadcast_in_dim %208, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %210 = stablehlo.iota dim = 0 : tensor<16xi32>
    %211 = stablehlo.broadcast_in_dim %210, dims = [1] : (tensor<16xi32>) -> tensor<1x16xi32>
    %212 = stablehlo.broadcast_in_dim %209, dims = [0, 1] : (tensor<16x1xi32>) -> tensor<16x16xi32>
    %213 = stablehlo.broadcast_in_dim %211, dims = [0, 1] : (tensor<1x16xi32>) -> tensor<16x16xi32>
    %214 = stablehlo.compare GE, %212, %213, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
    %cst_22 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %215 = call @_where_0(%214, %207, %cst_22) : (tensor<16x16xi1>, tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16x16xf32>
    %cst_23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %216 = stablehlo.reduce(%215 init: %cst_23) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
    %cst_24 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %217 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x2x16xf32>
    %218 = stablehlo.maximum %217, %216 : tensor<2x2x16xf32>
    %219 = stablehlo.broadcast_in_dim %218, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x1xf32>
    %220 = stablehlo.broadcast_in_dim %219, dims = [0, 1, 2, 3] : (tensor<2x2x16x1xf32>) -> tensor<2x2x16x16xf32>
    %221 = stablehlo.subtract %215, %220 : tensor<2x2x16x16xf32>
    %222 = stablehlo.exponential %221 : tensor<2x2x16x16xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %223 = stablehlo.reduce(%222 init: %cst_25) applies stablehlo.add across dimensions = [3] : (tensor<2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
    %224 = stablehlo.broadcast_in_dim %223, dims = [0, 1, 2] : (tensor<2x2x16xf32>) -> tensor<2x2x16x1xf32>
    %225 = stablehlo.broadcast_in_dim %224, dims = [0, 1, 2, 3] : (tensor<2x2x16x1xf32>) -> tensor<2x2x16x16xf32>
    %226 = stablehlo.divide %222, %225 : tensor<2x2x16x16xf32>
    %227 = stablehlo.dot_general %203, %226, batching_dims = [1] x [0], contracting_dims = [0] x [3], precision = [DEFAULT, DEFAULT] : (tensor<16x2x16xf32>, tensor<2x2x16x16xf32>) -> tensor<2x16x2x16xf32>
    %228 = stablehlo.transpose %227, dims = [3, 0, 2, 1] : (tensor<2x16x2x16xf32>) -> tensor<16x2x2x16xf32>
    %229 = stablehlo.reshape %228 : (tensor<16x2x2x16xf32>) -> tensor<16x64xf32>
    %230 = stablehlo.dot_general %229, %arg14, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %231 = stablehlo.add %125, %230 : tensor<16x64xf32>
    %232 = stablehlo.multiply %231, %231 : tensor<16x64xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %233 = stablehlo.reduce(%232 init: %cst_26) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %234 = stablehlo.broadcast_in_dim %233, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_27 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %235 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %236 = stablehlo.divide %234, %235 : tensor<16x1xf32>
    %cst_28 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %238 = stablehlo.add %236, %237 : tensor<16x1xf32>
    %239 = stablehlo.rsqrt %238 : tensor<16x1xf32>
    %240 = stablehlo.broadcast_in_dim %239, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %241 = stablehlo.multiply %231, %240 : tensor<16x64xf32>
    %242 = stablehlo.broadcast_in_dim %arg15, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %243 = stablehlo.broadcast_in_dim %242, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %244 = stablehlo.multiply %241, %243 : tensor<16x64xf32>
    %245 = stablehlo.dot_general %244, %arg16, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x176xf32>) -> tensor<16x176xf32>
    %246 = call @silu(%245) : (tensor<16x176xf32>) -> tensor<16x176xf32>
    %247 = stablehlo.dot_general %244, %arg17, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x176xf32>) -> tensor<16x176xf32>
    %248 = stablehlo.multiply %246, %247 : tensor<16x176xf32>
    %249 = stablehlo.dot_general %248, %arg18, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x176xf32>, tensor<176x64xf32>) -> tensor<16x64xf32>
    %250 = stablehlo.add %231, %249 : tensor<16x64xf32>
    %251 = stablehlo.multiply %250, %250 : tensor<16x64xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %252 = stablehlo.reduce(%251 init: %cst_29) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %253 = stablehlo.broadcast_in_dim %252, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_30 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %254 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %255 = stablehlo.divide %253, %254 : tensor<16x1xf32>
    %cst_31 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %256 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %257 = stablehlo.add %255, %256 : tensor<16x1xf32>
    %258 = stablehlo.rsqrt %257 : tensor<16x1xf32>
    %259 = stablehlo.broadcast_in_dim %258, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %260 = stablehlo.multiply %250, %259 : tensor<16x64xf32>
    %261 = stablehlo.broadcast_in_dim %arg19, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %262 = stablehlo.broadcast_in_dim %261, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %263 = stablehlo.multiply %260, %262 : tensor<16x64xf32>
    %264 = stablehlo.dot_general %263, %arg20, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x500xf32>) -> tensor<16x500xf32>
    return %264 : tensor<16x500xf32>
  }
  func.func private @_take(%arg0: tensor<500x64xf32>, %arg1: tensor<16xi32>) -> tensor<16x64xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<16xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
    %c_0 = stablehlo.constant dense<500> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<16xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<16xi32>
    %4 = call @_where(%1, %3, %arg1) : (tensor<16xi1>, tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %c_1 = stablehlo.constant dense<499> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<16x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<16x1xi32>, tensor<16x1xi32>) -> tensor<16x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<16x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<16x1xi32>, tensor<16x1xi32>) -> tensor<16x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<16x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [1] : (tensor<16x1xi1>, tensor<i1>) -> tensor<16xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<500x64xf32>, tensor<16x1xi32>) -> tensor<16x64xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<16xi1>) -> tensor<16x64xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<16x64xi1>, tensor<16x64xf32>
    return %16 : tensor<16x64xf32>
  }
  func.func private @_where(%arg0: tensor<16xi1>, %arg1: tensor<16xi32>, %arg2: tensor<16xi32>) -> tensor<16xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<16xi1>, tensor<16xi32>
    return %0 : tensor<16xi32>
  }
  func.func private @_where_0(%arg0: tensor<16x16xi1>, %arg1: tensor<2x2x16x16xf32>, %arg2: tensor<f32>) -> tensor<2x2x16x16xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<16x16xi1>) -> tensor<2x2x16x16xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x16x16xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x16x16xi1>, tensor<2x2x16x16xf32>
    return %3 : tensor<2x2x16x16xf32>
  }
  func.func private @silu(%arg0: tensor<16x176xf32>) -> tensor<16x176xf32> {
    %0 = stablehlo.negate %arg0 : tensor<16x176xf32>
    %1 = stablehlo.exponential %0 : tensor<16x176xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x176xf32>
    %3 = stablehlo.add %2, %1 : tensor<16x176xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x176xf32>
    %5 = stablehlo.divide %4, %3 : tensor<16x176xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<16x176xf32>
    return %6 : tensor<16x176xf32>
  }
}
