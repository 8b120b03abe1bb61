# Terraform, Pulumi, CDK and what else makes manifests of code.
resource "kubernetes_deployment" "chat" {
  metadata {
    name = "chat"
  }
}
