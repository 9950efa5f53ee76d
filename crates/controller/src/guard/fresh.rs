//! What the server itself says about who uses anything: a list without a version comes from the quorum, so that nothing
//! is missing that was there when it was asked for.

use super::RESERVATION;
use crate::world::World;
use berth_core::block::BlockKey;
use berth_core::ipam::Config;
use berth_core::model::{POOL_OBJECT, SUBNET_OBJECT};
use berth_dialects::{Object, judge, spiderpool};
use berth_kube::blocks::Blocks;
use berth_kube::connect::CallError;
use berth_kube::objects::resource_of;
use kube::api::{Api, DynamicObject, ListParams, TypeMeta};

/// Reads all blocks and takes in those that are not as they were known; whether that was done.
pub(super) fn take_in_blocks(world: &World) -> bool {
    let blocks = Blocks::new(world.cluster.client().clone(), "");
    let Ok(listed) = world.cluster.wait(blocks.list(None)) else { return false };
    let other: Vec<BlockKey> = world.engine.read(|ipam| {
        let other = listed.into_iter().filter(|(key, block, _)| ipam.block(key) != Some(block));
        other.map(|(key, ..)| key).collect()
    });
    world.engine.look_at(&other).is_ok()
}

/// What pools, subnets and reservations come to, put together as the configuration is: pools that name no subnet may be of
/// one.
pub(super) fn config(world: &World) -> Result<Config, CallError> {
    let mut objects = Vec::new();
    let kinds = [POOL_OBJECT, SUBNET_OBJECT, RESERVATION, spiderpool::POOL, spiderpool::SUBNET, spiderpool::RESERVED];
    for kind in kinds {
        match list(world, kind) {
            Ok(listed) => objects.extend(listed),
            // Without a definition there are no objects; what Berth has no right to see, it does not serve.
            Err(error) if error.status() == Some(404) => {}
            Err(error) if error.status() == Some(403) && !world.objects.has(kind) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(judge(&objects).config)
}

fn list(world: &World, kind: &str) -> Result<Vec<Object>, CallError> {
    let resource = resource_of(kind);
    let api: Api<DynamicObject> = Api::all_with(world.cluster.client().clone(), &resource);
    let listed = world.cluster.wait(api.list(&ListParams::default()))?;
    let object = |mut object: DynamicObject| {
        // Those in a list need not say what they are.
        object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
        Object::of_cluster(&serde_json::to_value(object).ok()?)
    };
    Ok(listed.items.into_iter().filter_map(object).collect())
}
