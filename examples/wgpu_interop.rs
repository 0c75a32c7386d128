//! An application with a wgpu device of its own: brasa computes from the application's buffer, and the application's
//! renderer draws what brasa computed from the very memory it lies in. Writes `reaction.png`, or the path it is given.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::io::Write as _;

use brasa::runtime::{Step, Var};
use brasa::{DType, Device, Tensor, wgpu};

/// The application's renderer: a triangle over the whole picture, coloured by the value under each pixel.
const RENDERER: &str = "
@group(0) @binding(0) var<storage, read> field: array<f32>;

@vertex fn corner(@builtin(vertex_index) n: u32) -> @builtin(position) vec4f {
    return vec4f(f32(n & 1u) * 4.0 - 1.0, f32(n >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}

@fragment fn colour(@builtin(position) at: vec4f) -> @location(0) vec4f {
    let value = field[u32(at.y) * SIDE + u32(at.x)];
    return vec4f(mix(vec3f(0.02, 0.05, 0.15), vec3f(1.0, 0.75, 0.35), smoothstep(0.1, 0.9, value)), 1.0);
}";
const SIDE: usize = 256;

/// Steps of a Gray-Scott reaction: two substances that diffuse, and one of which grows from the other.
fn reaction(start: &Tensor) -> brasa::Result<(Step, Var)> {
    let state = Var::state("u and v", &Tensor::stack(&[&(1.0 - start), start], 0))?;
    let kept = state.clone();
    let step = Step::new(start.device(), move |_| {
        let mut both = state.tensor();
        for _ in 0..10 {
            let neighbours = both.roll(1, 1) + both.roll(-1, 1) + both.roll(1, 2) + both.roll(-1, 2);
            let spread = (neighbours - &both * 4.0) * 0.2;
            let (u, v) = (both.select(0, 0), both.select(0, 1));
            let grown = &u * v.square();
            let du = spread.select(0, 0) - &grown + (1.0 - &u) * 0.037;
            let dv = spread.select(0, 1) * 0.5 + &grown - &v * 0.097;
            both = Tensor::stack(&[&(u + du), &(v + dv)], 0);
        }
        state.assign(&both);
        Vec::new()
    })?;
    Ok((step, kept))
}

fn main() -> Result<(), Box<dyn Error>> {
    // The application opens its device: with what brasa wants, and what it needs itself.
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
    let (device, queue) = pollster::block_on(adapter.request_device(&Device::wgpu_descriptor(&adapter)))?;
    let brasa = Device::from_wgpu(&adapter, device.clone(), queue.clone())?;

    // A buffer of the application's is a tensor, without a copy.
    let drops = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("drops"),
        size: (SIDE * SIDE * size_of::<f32>()) as u64,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let drop_at = |n: usize| f32::from(n % SIDE % 61 < 8 && n / SIDE % 53 < 8);
    queue.write_buffer(&drops, 0, bytemuck::cast_slice(&(0..SIDE * SIDE).map(drop_at).collect::<Vec<f32>>()));
    let start = Tensor::from_wgpu_buffer(&drops, [SIDE, SIDE], DType::F32, &brasa) * 0.5;

    let (mut step, state) = reaction(&start)?;
    for _ in 0..300 {
        step.run(&[])?;
    }

    // What brasa computes from it is a buffer, without a copy either; what the queue is given now comes after it.
    let field = state.tensor().select(0, 1);
    let field = (&field / field.max()).wgpu_buffer()?;
    let picture = draw(&device, &queue, &field);
    let path = std::env::args().nth(1).unwrap_or_else(|| "reaction.png".into());
    std::fs::write(&path, png(&download(&device, &queue, &picture)?)?)?;
    println!("drew {path} on {}", brasa.name());
    Ok(())
}

/// The application's render pass, into a texture where a window would give its own.
fn draw(device: &wgpu::Device, queue: &wgpu::Queue, field: &wgpu::Buffer) -> wgpu::Texture {
    let picture = device.create_texture(&wgpu::TextureDescriptor {
        label: Some("picture"),
        size: wgpu::Extent3d { width: SIDE as u32, height: SIDE as u32, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8UnormSrgb,
        usage: wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC,
        view_formats: &[],
    });
    let text = format!("const SIDE: u32 = {SIDE}u;\n{RENDERER}");
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("renderer"),
        source: wgpu::ShaderSource::Wgsl(text.into()),
    });
    let pipeline = device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some("renderer"),
        layout: None,
        vertex: wgpu::VertexState {
            module: &module,
            entry_point: Some("corner"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            buffers: &[],
        },
        fragment: Some(wgpu::FragmentState {
            module: &module,
            entry_point: Some("colour"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            targets: &[Some(picture.format().into())],
        }),
        primitive: wgpu::PrimitiveState::default(),
        depth_stencil: None,
        multisample: wgpu::MultisampleState::default(),
        multiview_mask: None,
        cache: None,
    });
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: field.as_entire_binding() }],
    });
    let view = picture.create_view(&wgpu::TextureViewDescriptor::default());
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let target = wgpu::RenderPassColorAttachment {
        view: &view,
        depth_slice: None,
        resolve_target: None,
        ops: wgpu::Operations { load: wgpu::LoadOp::Clear(wgpu::Color::BLACK), store: wgpu::StoreOp::Store },
    };
    let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
        label: None,
        color_attachments: &[Some(target)],
        ..Default::default()
    });
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.draw(0..3, 0..1);
    drop(pass);
    queue.submit([encoder.finish()]);
    picture
}

/// The picture's pixels, four bytes each.
fn download(device: &wgpu::Device, queue: &wgpu::Queue, picture: &wgpu::Texture) -> Result<Vec<u8>, Box<dyn Error>> {
    let buffer = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("download"),
        size: (SIDE * SIDE * 4) as u64,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    // rows of 256 pixels are as long as a copy wants them
    let layout = wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(SIDE as u32 * 4), rows_per_image: None };
    let target = wgpu::TexelCopyBufferInfo { buffer: &buffer, layout };
    encoder.copy_texture_to_buffer(picture.as_image_copy(), target, picture.size());
    queue.submit([encoder.finish()]);
    buffer.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("the picture is mapped"));
    device.poll(wgpu::PollType::wait_indefinitely())?;
    Ok(buffer.get_mapped_range(..)?.to_vec())
}

/// The pixels as a PNG file: header, one chunk of compressed rows, end.
fn png(pixels: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        let body = [kind, data].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&body);
        file.extend((data.len() as u32).to_be_bytes());
        file.extend(body);
        file.extend(crc.sum().to_be_bytes());
    };
    let side = (SIDE as u32).to_be_bytes();
    chunk(b"IHDR", &[&side[..], &side, &[8, 6, 0, 0, 0]].concat());
    let mut rows = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    for row in pixels.chunks(SIDE * 4) {
        rows.write_all(&[0])?; // no filter
        rows.write_all(row)?;
    }
    chunk(b"IDAT", &rows.finish()?);
    chunk(b"IEND", &[]);
    Ok(file)
}
