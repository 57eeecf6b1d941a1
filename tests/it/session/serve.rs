//! What the listener serves beside the contract: reflection and health.

use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

use super::*;

const SERVICE: &str = "signalbox.engine.v1.EngineService";

async fn channel(host: &Host) -> Channel {
    let endpoint =
        Endpoint::from_shared(format!("http://{}", host.engine_addr())).expect("an address");
    patience("a connection", endpoint.connect())
        .await
        .expect("the host listens")
}

#[tokio::test]
async fn reflection_v1_lists_the_service_and_shows_its_messages() {
    use reflection::server_reflection_client::ServerReflectionClient;
    use reflection::server_reflection_request::MessageRequest as Ask;
    use reflection::server_reflection_response::MessageResponse as Answer;
    use tonic_reflection::pb::v1 as reflection;

    let host = host().start().await;
    let mut client = ServerReflectionClient::new(channel(&host).await);
    let ask = |ask| reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(ask),
    };
    let asks = vec![
        ask(Ask::ListServices(String::new())),
        ask(Ask::FileContainingSymbol(SERVICE.into())),
        ask(Ask::FileContainingSymbol("google.rpc.ErrorInfo".into())),
    ];
    let mut answers = client
        .server_reflection_info(tokio_stream::iter(asks))
        .await
        .expect("served")
        .into_inner();
    let mut next = async || {
        answers
            .message()
            .await
            .expect("an answer")
            .and_then(|a| a.message_response)
    };
    let Some(Answer::ListServicesResponse(list)) = next().await else {
        panic!("no list")
    };
    let names: Vec<_> = list.service.iter().map(|s| s.name.as_str()).collect();
    assert!(
        names.contains(&SERVICE) && names.contains(&"grpc.health.v1.Health"),
        "{names:?}"
    );
    for _ in 0..2 {
        assert!(matches!(
            next().await,
            Some(Answer::FileDescriptorResponse(_))
        ));
    }
}

#[tokio::test]
async fn reflection_v1alpha_lists_the_service_too() {
    use reflection::server_reflection_client::ServerReflectionClient;
    use reflection::server_reflection_request::MessageRequest as Ask;
    use reflection::server_reflection_response::MessageResponse as Answer;
    use tonic_reflection::pb::v1alpha as reflection;

    let host = host().start().await;
    let mut client = ServerReflectionClient::new(channel(&host).await);
    let ask = reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(Ask::ListServices(String::new())),
    };
    let mut answers = client
        .server_reflection_info(tokio_stream::once(ask))
        .await
        .expect("served")
        .into_inner();
    let answer = answers
        .message()
        .await
        .expect("an answer")
        .and_then(|a| a.message_response);
    let Some(Answer::ListServicesResponse(list)) = answer else {
        panic!("no list")
    };
    assert!(list.service.iter().any(|s| s.name == SERVICE));
}

#[tokio::test]
async fn health_says_that_the_service_serves_and_when_it_stops() {
    let mut host = host().start().await;
    let mut client = HealthClient::new(channel(&host).await);
    for service in ["", SERVICE] {
        let ask = HealthCheckRequest {
            service: service.into(),
        };
        let answer = client.check(ask).await.expect("served").into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    let ask = HealthCheckRequest {
        service: SERVICE.into(),
    };
    let mut watch = client.watch(ask).await.expect("served").into_inner();
    let mut next = async || {
        patience("a word of health", watch.message())
            .await
            .ok()
            .flatten()
            .map(|a| a.status())
    };
    assert_eq!(next().await, Some(ServingStatus::Serving));
    // Somebody who watches does not hold up the stop.
    let (_, word) = tokio::join!(host.stop(), next());
    assert_eq!(word, Some(ServingStatus::NotServing));
}
