//! Instances that are protected from scale-in: AWS terminates none of them, however low the desired capacity is.

use super::{FOREVER, aws, capacity, desired_written, group, texts};
use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;

#[tokio::test]
async fn asg_protected_surplus() {
    for is_start in [false, true] {
        let mut plan = group("web", (0, 20, 8));
        (plan.is_protected, plan.scale_in_lag) = (true, FOREVER..=FOREVER);
        let aws = aws([plan]);
        let lower = |aws: &Aws, to: u32| aws.simulated().set_desired_externally("web", to).expect("it exists");
        if is_start {
            lower(&aws, 3);
        }
        let mut setup = Setup::open(aws).await;
        let client = &mut setup.client;
        client.until("it is served", async |client| client.nodes_in("web", 1).await.len() == 8).await;
        if !is_start {
            lower(&setup.emulator, 3);
        }
        let nodes = client.nodes_in("web", 1).await;
        assert_eq!(client.target("web").await, 8, "they stay");
        client.increase("web", 1).await.expect("AWS terminates none of the eight");
        assert_eq!(desired_written(&setup.emulator, "web"), [9], "room for all that live, and one more");
        client.until("nine run", async |client| client.nodes_in("web", 1).await.len() == 9).await;

        // Too low once more: any number can be deleted, and the desired capacity falls only where fewer live than that.
        lower(&setup.emulator, 4);
        client.delete("web", &texts(&nodes[..4])).await.expect("nine live, and five do afterwards");
        client.until("five run", async |client| client.nodes_in("web", 1).await.len() == 5).await;
        assert_eq!((client.target("web").await, capacity(&setup.emulator, "web")), (5, 4));
        client.delete("web", &texts(&nodes[4..7])).await.expect("one of them has no place to give up");
        client.until("two run", async |client| client.nodes_in("web", 1).await.len() == 2).await;
        assert_eq!((client.target("web").await, capacity(&setup.emulator, "web")), (2, 2));
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}
