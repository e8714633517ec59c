module @jit_function attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<500x64xf32>, %arg1: tensor<16x64xf32>, %arg2: tensor<64xf32>, %arg3: tensor<64xf32>, %arg4: tensor<64x64xf32>, %arg5: tensor<64xf32>, %arg6: tensor<64x64xf32>, %arg7: tensor<64xf32>, %arg8: tensor<64x64xf32>, %arg9: tensor<64xf32>, %arg10: tensor<64x64xf32>, %arg11: tensor<64xf32>, %arg12: tensor<64xf32>, %arg13: tensor<64xf32>, %arg14: tensor<64x128xf32>, %arg15: tensor<128xf32>, %arg16: tensor<128x64xf32>, %arg17: tensor<64xf32>, %arg18: tensor<64xf32>, %arg19: tensor<64xf32>, %arg20: tensor<64x64xf32>, %arg21: tensor<64xf32>, %arg22: tensor<64x64xf32>, %arg23: tensor<64xf32>, %arg24: tensor<64x64xf32>, %arg25: tensor<64xf32>, %arg26: tensor<64x64xf32>, %arg27: tensor<64xf32>, %arg28: tensor<64xf32>, %arg29: tensor<64xf32>, %arg30: tensor<64x128xf32>, %arg31: tensor<128xf32>, %arg32: tensor<128x64xf32>, %arg33: tensor<64xf32>, %arg34: tensor<64xf32>, %arg35: tensor<64xf32>, %arg36: tensor<16xi32>, %arg37: tensor<16xi1>) -> (tensor<16x64xf32> {jax.result_info = "result"}) {
    %0 = call @_take(%arg0, %arg36) : (tensor<500x64xf32>, tensor<16xi32>) -> tensor<16x64xf32>
    %1 = stablehlo.add %0, %arg1 : tensor<16x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<16x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<16x64xf32>
    %8 = stablehlo.multiply %7, %7 : tensor<16x64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<16x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %14 = stablehlo.add %12, %13 : tensor<16x1xf32>
    %15 = stablehlo.rsqrt %14 : tensor<16x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %17 = stablehlo.multiply %7, %16 : tensor<16x64xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %19 = stablehlo.add %18, %arg2 : tensor<64xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %22 = stablehlo.multiply %17, %21 : tensor<16x64xf32>
    %23 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %25 = stablehlo.add %22, %24 : tensor<16x64xf32>
    %26 = stablehlo.dot_general %25, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %27 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %29 = stablehlo.add %26, %28 : tensor<16x64xf32>
    %30 = stablehlo.reshape %29 : (tensor<16x64xf32>) -> tensor<16x4x16xf32>
    %31 = stablehlo.dot_general %25, %arg6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %32 = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %34 = stablehlo.add %31, %33 : tensor<16x64xf32>
    %35 = stablehlo.reshape %34 : (tensor<16x64xf32>) -> tensor<16x4x16xf32>
    %36 = stablehlo.dot_general %25, %arg8, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %37 = stablehlo.broadcast_in_dim %arg9, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %39 = stablehlo.add %36, %38 : tensor<16x64xf32>
    %40 = stablehlo.reshape %39 : (tensor<16x64xf32>) -> tensor<16x4x16xf32>
    %41 = stablehlo.dot_general %30, %35, batching_dims = [1] x [1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<16x4x16xf32>, tensor<16x4x16xf32>) -> tensor<4x16x16xf32>
    %cst_5 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x16x16xf32>
    %43 = stablehlo.multiply %41, %42 : tensor<4x16x16xf32>
    %44 = stablehlo.broadcast_in_dim %arg37, dims = [2] : (tensor<16xi1>) -> tensor<1x1x16xi1>
    %cst_6 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %45 = call @_where_0(%44, %43, %cst_6) : (tensor<1x1x16xi1>, tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16x16xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %46 = stablehlo.reduce(%45 init: %cst_7) applies stablehlo.maximum across dimensions = [2] : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %48 = stablehlo.maximum %47, %46 : tensor<4x16xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1] : (tensor<4x16xf32>) -> tensor<4x16x1xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<4x16x1xf32>) -> tensor<4x16x16xf32>
    %51 = stablehlo.subtract %45, %50 : tensor<4x16x16xf32>
    %52 = stablehlo.exponential %51 : tensor<4x16x16xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %53 = stablehlo.reduce(%52 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1] : (tensor<4x16xf32>) -> tensor<4x16x1xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2] : (tensor<4x16x1xf32>) -> tensor<4x16x16xf32>
    %56 = stablehlo.divide %52, %55 : tensor<4x16x16xf32>
    %57 = stablehlo.dot_general %40, %56, batching_dims = [1] x [0], contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<16x4x16xf32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
    %58 = stablehlo.transpose %57, dims = [2, 0, 1] : (tensor<4x16x16xf32>) -> tensor<16x4x16xf32>
    %59 = stablehlo.reshape %58 : (tensor<16x4x16xf32>) -> tensor<16x64xf32>
    %60 = stablehlo.dot_general %59, %arg10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %61 = stablehlo.add %25, %60 : tensor<16x64xf32>
    %62 = stablehlo.broadcast_in_dim %arg11, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %64 = stablehlo.add %61, %63 : tensor<16x64xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %65 = stablehlo.reduce(%64 init: %cst_10) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_11 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %68 = stablehlo.divide %66, %67 : tensor<16x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %70 = stablehlo.subtract %64, %69 : tensor<16x64xf32>
    %71 = stablehlo.multiply %70, %70 : tensor<16x64xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.reduce(%71 init: %cst_12) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_13 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %75 = stablehlo.divide %73, %74 : tensor<16x1xf32>
    %cst_14 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %77 = stablehlo.add %75, %76 : tensor<16x1xf32>
    %78 = stablehlo.rsqrt %77 : tensor<16x1xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %80 = stablehlo.multiply %70, %79 : tensor<16x64xf32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %82 = stablehlo.add %81, %arg12 : tensor<64xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %85 = stablehlo.multiply %80, %84 : tensor<16x64xf32>
    %86 = stablehlo.broadcast_in_dim %arg13, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %88 = stablehlo.add %85, %87 : tensor<16x64xf32>
    %89 = stablehlo.dot_general %88, %arg14, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x128xf32>) -> tensor<16x128xf32>
    %90 = stablehlo.broadcast_in_dim %arg15, dims = [1] : (tensor<128xf32>) -> tensor<1x128xf32>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<16x128xf32>
    %92 = stablehlo.add %89, %91 : tensor<16x128xf32>
    %cst_16 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<16x128xf32>
    %94 = stablehlo.multiply %93, %92 : tensor<16x128xf32>
    %95 = stablehlo.negate %92 : tensor<16x128xf32>
    %cst_17 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<16x128xf32>
    %97 = stablehlo.multiply %95, %96 : tensor<16x128xf32>
    %98 = chlo.erfc %97 : tensor<16x128xf32> -> tensor<16x128xf32>
    %99 = stablehlo.multiply %94, %98 : tensor<16x128xf32>
    %100 = stablehlo.dot_general %99, %arg16, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x128xf32>, tensor<128x64xf32>) -> tensor<16x64xf32>
    %101 = stablehlo.add %88, %100 : tensor<16x64xf32>
    %102 = stablehlo.broadcast_in_dim %arg17, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %104 = stablehlo.add %101, %103 : tensor<16x64xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %105 = stablehlo.reduce(%104 init: %cst_18) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_19 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %108 = stablehlo.divide %106, %107 : tensor<16x1xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %110 = stablehlo.subtract %104, %109 : tensor<16x64xf32>
    %111 = stablehlo.multiply %110, %110 : tensor<16x64xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %112 = stablehlo.reduce(%111 init: %cst_20) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %113 = stablehlo.broadcast_in_dim %112, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_21 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %114 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %115 = stablehlo.divide %113, %114 : tensor<16x1xf32>
    %cst_22 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %116 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %117 = stablehlo.add %115, %116 : tensor<16x1xf32>
    %118 = stablehlo.rsqrt %117 : tensor<16x1xf32>
    %119 = stablehlo.broadcast_in_dim %118, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %120 = stablehlo.multiply %110, %119 : tensor<16x64xf32>
    %cst_23 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %122 = stablehlo.add %121, %arg18 : tensor<64xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %124 = stablehlo.broadcast_in_dim %123, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %125 = stablehlo.multiply %120, %124 : tensor<16x64xf32>
    %126 = stablehlo.broadcast_in_dim %arg19, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %128 = stablehlo.add %125, %127 : tensor<16x64xf32>
    %129 = stablehlo.dot_general %128, %arg20, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %130 = stablehlo.broadcast_in_dim %arg21, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %131 = stablehlo.broadcast_in_dim %130, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %132 = stablehlo.add %129, %131 : tensor<16x64xf32>
    %133 = stablehlo.reshape %132 : (tensor<16x64xf32>) -> tensor<16x4x16xf32>
    %134 = stablehlo.dot_general %128, %arg22, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %135 = stablehlo.broadcast_in_dim %arg23, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %136 = stablehlo.broadcast_in_dim %135, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %137 = stablehlo.add %134, %136 : tensor<16x64xf32>
    %138 = stablehlo.reshape %137 : (tensor<16x64xf32>) -> tensor<16x4x16xf32>
    %139 = stablehlo.dot_general %128, %arg24, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %140 = stablehlo.broadcast_in_dim %arg25, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %141 = stablehlo.broadcast_in_dim %140, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %142 = stablehlo.add %139, %141 : tensor<16x64xf32>
    %143 = stablehlo.reshape %142 : (tensor<16x64xf32>) -> tensor<16x4x16xf32>
    %144 = stablehlo.dot_general %133, %138, batching_dims = [1] x [1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<16x4x16xf32>, tensor<16x4x16xf32>) -> tensor<4x16x16xf32>
    %cst_24 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4x16x16xf32>
    %146 = stablehlo.multiply %144, %145 : tensor<4x16x16xf32>
    %147 = stablehlo.broadcast_in_dim %arg37, dims = [2] : (tensor<16xi1>) -> tensor<1x1x16xi1>
    %cst_25 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %148 = call @_where_0(%147, %146, %cst_25) : (tensor<1x1x16xi1>, tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16x16xf32>
    %cst_26 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %149 = stablehlo.reduce(%148 init: %cst_26) applies stablehlo.maximum across dimensions = [2] : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %cst_27 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %150 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %151 = stablehlo.maximum %150, %149 : tensor<4x16xf32>
    %152 = stablehlo.broadcast_in_dim %151, dims = [0, 1] : (tensor<4x16xf32>) -> tensor<4x16x1xf32>
    %153 = stablehlo.broadcast_in_dim %152, dims = [0, 1, 2] : (tensor<4x16x1xf32>) -> tensor<4x16x16xf32>
    %154 = stablehlo.subtract %148, %153 : tensor<4x16x16xf32>
    %155 = stablehlo.exponential %154 : tensor<4x16x16xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %156 = stablehlo.reduce(%155 init: %cst_28) applies stablehlo.add across dimensions = [2] : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %157 = stablehlo.broadcast_in_dim %156, dims = [0, 1] : (tensor<4x16xf32>) -> tensor<4x16x1xf32>
    %158 = stablehlo.broadcast_in_dim %157, dims = [0, 1, 2] : (tensor<4x16x1xf32>) -> tensor<4x16x16xf32>
    %159 = stablehlo.divide %155, %158 : tensor<4x16x16xf32>
    %160 = stablehlo.dot_general %143, %159, batching_dims = [1] x [0], contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<16x4x16xf32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
    %161 = stablehlo.transpose %160, dims = [2, 0, 1] : (tensor<4x16x16xf32>) -> tensor<16x4x16xf32>
    %162 = stablehlo.reshape %161 : (tensor<16x4x16xf32>) -> tensor<16x64xf32>
    %163 = stablehlo.dot_general %162, %arg26, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %164 = stablehlo.add %128, %163 : tensor<16x64xf32>
    %165 = stablehlo.broadcast_in_dim %arg27, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %167 = stablehlo.add %164, %166 : tensor<16x64xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %168 = stablehlo.reduce(%167 init: %cst_29) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %169 = stablehlo.broadcast_in_dim %168, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_30 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %170 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %171 = stablehlo.divide %169, %170 : tensor<16x1xf32>
    %172 = stablehlo.broadcast_in_dim %171, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %173 = stablehlo.subtract %167, %172 : tensor<16x64xf32>
    %174 = stablehlo.multiply %173, %173 : tensor<16x64xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %175 = stablehlo.reduce(%174 init: %cst_31) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %176 = stablehlo.broadcast_in_dim %175, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_32 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %177 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %178 = stablehlo.divide %176, %177 : tensor<16x1xf32>
    %cst_33 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %179 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %180 = stablehlo.add %178, %179 : tensor<16x1xf32>
    %181 = stablehlo.rsqrt %180 : tensor<16x1xf32>
    %182 = stablehlo.broadcast_in_dim %181, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %183 = stablehlo.multiply %173, %182 : tensor<16x64xf32>
    %cst_34 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %184 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %185 = stablehlo.add %184, %arg28 : tensor<64xf32>
    %186 = stablehlo.broadcast_in_dim %185, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %187 = stablehlo.broadcast_in_dim %186, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %188 = stablehlo.multiply %183, %187 : tensor<16x64xf32>
    %189 = stablehlo.broadcast_in_dim %arg29, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %190 = stablehlo.broadcast_in_dim %189, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %191 = stablehlo.add %188, %190 : tensor<16x64xf32>
    %192 = stablehlo.dot_general %191, %arg30, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x128xf32>) -> tensor<16x128xf32>
    %193 = stablehlo.broadcast_in_dim %arg31, dims = [1] : (tensor<128xf32>) -> tensor<1x128xf32>
    %194 = stablehlo.broadcast_in_dim %193, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<16x128xf32>
    %195 = stablehlo.add %192, %194 : tensor<16x128xf32>
    %cst_35 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %196 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<16x128xf32>
    %197 = stablehlo.multiply %196, %195 : tensor<16x128xf32>
    %198 = stablehlo.negate %195 : tensor<16x128xf32>
    %cst_36 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %199 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<16x128xf32>
    %200 = stablehlo.multiply %198, %199 : tensor<16x128xf32>
    %201 = chlo.erfc %200 : tensor<16x128xf32> -> tensor<16x128xf32>
    %202 = stablehlo.multiply %197, %201 : tensor<16x128xf32>
    %203 = stablehlo.dot_general %202, %arg32, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x128xf32>, tensor<128x64xf32>) -> tensor<16x64xf32>
    %204 = stablehlo.add %191, %203 : tensor<16x64xf32>
    %205 = stablehlo.broadcast_in_dim %arg33, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %206 = stablehlo.broadcast_in_dim %205, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %207 = stablehlo.add %204, %206 : tensor<16x64xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %208 = stablehlo.reduce(%207 init: %cst_37) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %209 = stablehlo.broadcast_in_dim %208, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_38 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %210 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %211 = stablehlo.divide %209, %210 : tensor<16x1xf32>
    %212 = stablehlo.broadcast_in_dim %211, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %213 = stablehlo.subtract %207, %212 : tensor<16x64xf32>
    %214 = stablehlo.multiply %213, %213 : tensor<16x64xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %215 = stablehlo.reduce(%214 init: %cst_39) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %216 = stablehlo.broadcast_in_dim %215, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_40 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %217 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %218 = stablehlo.divide %216, %217 : tensor<16x1xf32>
    %cst_41 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %219 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %220 = stablehlo.add %218, %219 : tensor<16x1xf32>
    %221 = stablehlo.rsqrt %220 : tensor<16x1xf32>
    %222 = stablehlo.broadcast_in_dim %221, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %223 = stablehlo.multiply %213, %222 : tensor<16x64xf32>
    %cst_42 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %224 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %225 = stablehlo.add %224, %arg34 : tensor<64xf32>
    %226 = stablehlo.broadcast_in_dim %225, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %227 = stablehlo.broadcast_in_dim %226, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %228 = stablehlo.multiply %223, %227 : tensor<16x64xf32>
    %229 = stablehlo.broadcast_in_dim %arg35, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %230 = stablehlo.broadcast_in_dim %229, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<16x64xf32>
    %231 = stablehlo.add %228, %230 : tensor<16x64xf32>
    return %231 : tensor<16x64xf32>
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
  func.func private @_where_0(%arg0: tensor<1x1x16xi1>, %arg1: tensor<4x16x16xf32>, %arg2: tensor<f32>) -> tensor<4x16x16xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<1x1x16xi1>) -> tensor<4x16x16xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x16x16xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x16x16xi1>, tensor<4x16x16xf32>
    return %3 : tensor<4x16x16xf32>
  }
}
